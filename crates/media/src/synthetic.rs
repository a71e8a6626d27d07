//! A deterministic synthetic "game": video that is hard and easy in turns, from a seed and nothing else.
//!
//! A clip is a sequence of scenes, each a few seconds long and begun by a hard cut:
//!
//! ```text
//!   play     a texture scrolls and zooms under moving sprites, with film grain     steady, expensive
//!   fight    the same with a burst of particles and a shaking camera               very expensive
//!   menu     a dark still picture with boxes and a blinking cursor                 nearly free
//! ```
//!
//! Integer arithmetic only, so that every machine draws the same picture.

use std::sync::Arc;

use units::{Rng, Span};

use crate::{RawFrame, Source};

/// Side of the scrolling texture in samples; a power of two so that it tiles with a mask.
const TILE: usize = 512;
/// Length of the grain table: a prime, so that it does not line up with rows.
const GRAIN: usize = 65_521;

/// How to draw a [`SyntheticGame`].
#[derive(Clone, Debug)]
pub struct SyntheticConfig {
    /// Width in pixels, even, at least 16.
    pub width: usize,
    /// Height in pixels, even, at least 16.
    pub height: usize,
    /// Time between pictures; motion is per second, so a faster clip moves less from picture to picture.
    pub interval: Span,
    /// Pictures until the end; endless if `None`.
    pub frames: Option<u64>,
    /// Everything random comes from here.
    pub seed: u64,
}

impl SyntheticConfig {
    /// An endless 60 Hz clip of this size.
    pub fn new(width: usize, height: usize) -> SyntheticConfig {
        SyntheticConfig { width, height, interval: Span::from_nanos(16_666_667), frames: None, seed: 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Play,
    Fight,
    Menu,
}

/// A moving block of texture of its own.
struct Sprite {
    /// Place and speed in 1/256 pixel and 1/256 pixel a second.
    x: i64,
    y: i64,
    dx: i64,
    dy: i64,
    side: i64,
    luma: u8,
    blue: u8,
    red: u8,
}

/// What stays the same until the next cut.
struct Scene {
    kind: Kind,
    /// Pictures left.
    left: u64,
    /// Pictures shown.
    age: u64,
    /// Texture offset of this scene, scroll speed in 1/256 texel a second, zoom in 1/65536 texel a pixel.
    origin: (i64, i64),
    speed: (i64, i64),
    zoom: i64,
    /// Colour cast, and how bright it is.
    tint: (i16, i16),
    light: i64,
    sprites: Vec<Sprite>,
}

/// A clip drawn by arithmetic: a moving scene with cuts, the same for the same seed.
pub struct SyntheticGame {
    config: SyntheticConfig,
    rng: Rng,
    luma: Vec<u8>,
    blue: Vec<u8>,
    red: Vec<u8>,
    grain: Vec<i8>,
    scene: Scene,
    drawn: u64,
}

/// Tileable noise: octaves of random lattices, interpolated linearly, the finest one texel wide.
fn noise(rng: &mut Rng, weights: &[i64]) -> Vec<u8> {
    let mut sum = vec![0i64; TILE * TILE];
    for (octave, &weight) in weights.iter().enumerate() {
        let cell = (TILE / 8) >> octave;
        let side = TILE / cell;
        let lattice: Vec<i64> = (0..side * side).map(|_| rng.below(256) as i64).collect();
        let corner = |x: usize, y: usize| lattice[(y % side) * side + x % side];
        for (i, total) in sum.iter_mut().enumerate() {
            let (x, y) = (i % TILE, i / TILE);
            let (cx, cy, fx, fy) = (x / cell, y / cell, (x % cell) as i64, (y % cell) as i64);
            let size = cell as i64;
            let top = corner(cx, cy) * (size - fx) + corner(cx + 1, cy) * fx;
            let bottom = corner(cx, cy + 1) * (size - fx) + corner(cx + 1, cy + 1) * fx;
            *total += weight * (top * (size - fy) + bottom * fy) / (size * size);
        }
    }
    let scale: i64 = weights.iter().sum();
    sum.into_iter().map(|total| (total / scale) as u8).collect()
}

fn clamp(value: i64) -> u8 {
    value.clamp(16, 235) as u8
}

impl Sprite {
    fn random(rng: &mut Rng, width: i64, height: i64) -> Sprite {
        let side = (height / 16).max(4) + rng.below((height / 6).max(4) as u64) as i64;
        let speed = |rng: &mut Rng, size: i64| (rng.below(512) as i64 - 256) * size;
        Sprite {
            x: rng.below(width as u64) as i64 * 256,
            y: rng.below(height as u64) as i64 * 256,
            dx: speed(rng, width / 2),
            dy: speed(rng, height / 4),
            side,
            luma: 40 + rng.below(190) as u8,
            blue: 60 + rng.below(136) as u8,
            red: 60 + rng.below(136) as u8,
        }
    }

    /// Moves by `ns` nanoseconds and bounces off the edges.
    fn advance(&mut self, ns: i64, width: i64, height: i64) {
        let bounce = |place: &mut i64, speed: &mut i64, size: i64| {
            *place += *speed * (ns / 1_000) / 1_000_000;
            if (*place < 0 && *speed < 0) || (*place > size * 256 && *speed > 0) {
                *speed = -*speed;
            }
        };
        bounce(&mut self.x, &mut self.dx, width);
        bounce(&mut self.y, &mut self.dy, height);
    }
}

impl Scene {
    fn random(rng: &mut Rng, config: &SyntheticConfig, first: bool) -> Scene {
        let kind = match rng.below(10) {
            _ if first => Kind::Play,
            0..5 => Kind::Play,
            5..7 => Kind::Fight,
            _ => Kind::Menu,
        };
        let fps = 1_000_000_000 / config.interval.as_nanos().max(1) as u64;
        let seconds = if kind == Kind::Play { 2 + rng.below(4) } else { 1 + rng.below(2) };
        let (width, height) = (config.width as i64, config.height as i64);
        let sprites = match kind {
            Kind::Play => 6,
            Kind::Fight => 14,
            Kind::Menu => 0,
        };
        let mut signed = |range: u64| rng.below(2 * range + 1) as i64 - range as i64;
        let (origin, speed) = ((signed(1 << 20), signed(1 << 20)), (signed(256 * 320), signed(256 * 80)));
        let (tint, light) = ((signed(24) as i16, signed(24) as i16), signed(50));
        Scene {
            kind,
            left: (seconds * fps).max(1),
            age: 0,
            origin,
            speed,
            zoom: 40_000 + rng.below(30_000) as i64,
            tint,
            light,
            sprites: (0..sprites).map(|_| Sprite::random(rng, width, height)).collect(),
        }
    }
}

impl SyntheticGame {
    /// A clip from its beginning.
    ///
    /// # Panics
    /// If a side is odd or below 16, or the interval is not positive.
    pub fn new(config: SyntheticConfig) -> SyntheticGame {
        let good = |side: usize| side.is_multiple_of(2) && side >= 16;
        assert!(
            good(config.width) && good(config.height),
            "a synthetic clip needs even sides of at least 16"
        );
        assert!(config.interval.is_positive(), "a synthetic clip needs time between its pictures");
        let mut textures = Rng::stream(config.seed, "synthetic/textures");
        let luma = noise(&mut textures, &[8, 6, 5, 4, 4, 3]);
        let (blue, red) = (noise(&mut textures, &[4, 2, 1]), noise(&mut textures, &[4, 2, 1]));
        let mut die = || textures.below(5) as i8 - 2;
        // Three dice make a bell of standard deviation 2.4.
        let grain = (0..GRAIN).map(|_| die() + die() + die()).collect();
        let mut rng = Rng::stream(config.seed, "synthetic/scenes");
        let scene = Scene::random(&mut rng, &config, true);
        SyntheticGame { config, rng, luma, blue, red, grain, scene, drawn: 0 }
    }

    fn advance(&mut self) {
        if self.scene.left == 0 {
            self.scene = Scene::random(&mut self.rng, &self.config, false);
        }
        let ns = self.config.interval.as_nanos();
        let (width, height) = (self.config.width as i64, self.config.height as i64);
        let scene = &mut self.scene;
        scene.left -= 1;
        scene.age += 1;
        scene.origin.0 += scene.speed.0 * (ns / 1_000) / 1_000_000;
        scene.origin.1 += scene.speed.1 * (ns / 1_000) / 1_000_000;
        if scene.kind == Kind::Fight {
            scene.origin.0 += (self.rng.below(9) as i64 - 4) * 256;
            scene.origin.1 += (self.rng.below(9) as i64 - 4) * 256;
        }
        scene.sprites.iter_mut().for_each(|sprite| sprite.advance(ns, width, height));
    }

    /// Fills a plane with a texture, scrolled and zoomed; `step` is 1 for luma, 2 for chroma.
    fn texture(&self, plane: &mut [u8], texture: &[u8], step: i64, map: impl Fn(u8) -> u8) {
        let width = self.config.width / step as usize;
        let (x0, y0) = (self.scene.origin.0 << 8, self.scene.origin.1 << 8);
        let zoom = (self.scene.zoom + (self.scene.age as i64 % 512) * 16) * step;
        let table: Vec<u8> = (0..=255).map(map).collect();
        for (row, line) in plane.chunks_exact_mut(width).enumerate() {
            let ty = ((y0 + row as i64 * zoom) >> 16) as usize & (TILE - 1);
            let texels = &texture[ty * TILE..(ty + 1) * TILE];
            let mut tx = x0;
            for pixel in line {
                *pixel = table[usize::from(texels[(tx >> 16) as usize & (TILE - 1)])];
                tx += zoom;
            }
        }
    }

    fn draw_play(&mut self, frame: &mut RawFrame) {
        let (blue, red, light) =
            (i64::from(self.scene.tint.0), i64::from(self.scene.tint.1), self.scene.light);
        self.texture(&mut frame.y, &self.luma, 1, |t| clamp(i64::from(t) * 3 / 2 - 60 + light));
        self.texture(&mut frame.u, &self.blue, 2, |t| clamp(128 + blue + (i64::from(t) - 128) / 2));
        self.texture(&mut frame.v, &self.red, 2, |t| clamp(128 + red + (i64::from(t) - 128) / 2));
        self.scene.sprites.iter().for_each(|sprite| draw_sprite(frame, sprite));
        if self.scene.kind == Kind::Fight {
            self.draw_particles(frame);
        }
        self.draw_grain(frame);
    }

    fn draw_particles(&mut self, frame: &mut RawFrame) {
        for _ in 0..frame.width * frame.height / 2_000 {
            let x = self.rng.below(frame.width as u64 - 3) as usize;
            let y = self.rng.below(frame.height as u64 - 3) as usize;
            let luma = 120 + self.rng.below(116) as u8;
            (0..3).for_each(|row| frame.y[(y + row) * frame.width + x..][..3].fill(luma));
        }
    }

    fn draw_grain(&mut self, frame: &mut RawFrame) {
        let mut at = self.rng.below(GRAIN as u64) as usize;
        let mut rest = frame.y.as_mut_slice();
        while !rest.is_empty() {
            let run = rest.len().min(GRAIN - at);
            let (line, after) = rest.split_at_mut(run);
            let grain = &self.grain[at..at + run];
            line.iter_mut().zip(grain).for_each(|(pixel, &g)| *pixel = pixel.saturating_add_signed(g));
            (rest, at) = (after, 0);
        }
    }

    fn draw_menu(&self, frame: &mut RawFrame) {
        frame.y.fill(28);
        frame.u.fill(128 + self.scene.tint.0.unsigned_abs() as u8);
        frame.v.fill(128 + self.scene.tint.1.unsigned_abs() as u8);
        let (width, height) = (frame.width, frame.height);
        let blink = (self.scene.age / 20).is_multiple_of(2);
        for item in 0..5 {
            let luma = if item == 2 && blink { 200 } else { 90 };
            let (top, left) = (height * (2 + 2 * item) / 14, width / 4);
            for row in top..top + height / 14 {
                // Vertical strokes stand for letters.
                for x in (left..left + width / 2).step_by(6) {
                    frame.y[row * width + x..][..3].fill(luma);
                }
            }
        }
    }

    fn draw(&mut self) -> RawFrame {
        let mut frame = RawFrame::filled(self.config.width, self.config.height, 16, 128, 128);
        match self.scene.kind {
            Kind::Menu => self.draw_menu(&mut frame),
            Kind::Play | Kind::Fight => self.draw_play(&mut frame),
        }
        frame
    }
}

/// A square with a checkered inside and its own colour.
fn draw_sprite(frame: &mut RawFrame, sprite: &Sprite) {
    let (left, top) = (sprite.x / 256, sprite.y / 256);
    let (width, height) = (frame.width as i64, frame.height as i64);
    for y in top.max(0)..(top + sprite.side).min(height) {
        for x in left.max(0)..(left + sprite.side).min(width) {
            let dark = ((x - left) / 6 + (y - top) / 6) % 3 == 0;
            frame.y[(y * width + x) as usize] = if dark { sprite.luma / 2 } else { sprite.luma };
            let chroma = (y / 2 * (width / 2) + x / 2) as usize;
            (frame.u[chroma], frame.v[chroma]) = (sprite.blue, sprite.red);
        }
    }
}

impl Source for SyntheticGame {
    fn size(&self) -> (usize, usize) {
        (self.config.width, self.config.height)
    }

    fn interval(&self) -> Span {
        self.config.interval
    }

    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        if self.config.frames.is_some_and(|most| self.drawn >= most) {
            return None;
        }
        self.drawn += 1;
        self.advance();
        Some(Arc::new(self.draw()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality;

    fn small(seed: u64, frames: u64) -> SyntheticConfig {
        let interval = Span::from_millis(40);
        SyntheticConfig { interval, frames: Some(frames), seed, ..SyntheticConfig::new(96, 64) }
    }

    fn pictures(config: SyntheticConfig) -> Vec<Arc<RawFrame>> {
        let mut game = SyntheticGame::new(config);
        std::iter::from_fn(|| game.next_picture()).collect()
    }

    #[test]
    fn the_seed_decides_everything() {
        assert_eq!(pictures(small(3, 60)), pictures(small(3, 60)));
        assert_ne!(pictures(small(3, 1)), pictures(small(4, 1)));
    }

    #[test]
    fn pictures_are_the_same_on_every_machine() {
        let fnv = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        let hash = |p: &Arc<RawFrame>| p.y.iter().chain(&p.u).chain(&p.v).fold(0xcbf2_9ce4_8422_2325, fnv);
        let all = pictures(small(1, 200));
        assert_eq!(
            [hash(&all[0]), hash(&all[199])],
            GOLDEN,
            "change the golden value knowingly: every recorded table moves"
        );
    }

    const GOLDEN: [u64; 2] = [6105487794554295081, 10787247702208154302];

    #[test]
    fn there_are_cuts_and_quiet_scenes() {
        let all = pictures(small(1, 1_500));
        let alike: Vec<f64> = all.windows(2).map(|w| quality(&w[0], &w[1]).unwrap().psnr_y).collect();
        let cuts = alike.iter().filter(|&&db| db < 16.0).count();
        let still = alike.iter().filter(|&&db| db > 50.0).count();
        assert!((8..80).contains(&cuts), "{cuts} cuts in a minute");
        assert!(still > 100, "{still} still pictures of 1500");
    }

    #[test]
    fn any_even_size_will_do() {
        for (width, height) in [(16, 16), (18, 34), (642, 362)] {
            let config = SyntheticConfig { frames: Some(90), seed: 9, ..SyntheticConfig::new(width, height) };
            let mut game = SyntheticGame::new(config);
            let picture = game.next_picture().unwrap();
            assert_eq!((picture.y.len(), picture.u.len()), (width * height, width * height / 4));
            if width < 100 {
                assert_eq!(std::iter::from_fn(|| game.next_picture()).count(), 89);
            }
        }
    }
}
