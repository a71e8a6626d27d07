//! Clips that several runs play: ffmpeg decodes each once, and its pictures are kept where there is room.
//!
//! ```text
//!   Shelf::open -> Clip --.
//!   Shelf::open -> Clip --+--> Reel: pictures 0, 1, 2 ... kept <-- ffmpeg, as far as any clip has played
//!   Shelf::open -> Clip --'
//!                     '------> ffmpeg of its own, once the pictures take too much room to be kept
//! ```
//!
//! A clip of 34 Mbit/s takes more processor time to decode than to be coded anew, sent and measured at a
//! quarter of its size.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clip::{Frames, Stream, needs_ffmpeg, open_stream};
use crate::{Clip, ClipError, ClipOptions, RawFrame, Y4mHeader};

/// Clips that are kept although nobody plays them: the one that is played most and the one before.
const REELS: usize = 2;

/// Where clips are kept.
pub struct Shelf {
    /// Bytes that the pictures of a clip may take.
    most: usize,
    /// Those opened last, at the end.
    reels: Mutex<Vec<Arc<Reel>>>,
}

impl Shelf {
    /// A shelf that keeps two clips and those that are being played, each as long as what was played of it
    /// takes less than `most` bytes. Of a longer one nothing is kept: to go on behind a part that is kept,
    /// ffmpeg must decode that part again.
    pub const fn new(most: usize) -> Shelf {
        Shelf { most, reels: Mutex::new(Vec::new()) }
    }

    /// Opens a clip as [`Clip::open`] does, with the same pictures. Whoever opens the file again with the
    /// same size gets them from memory, unless it was written meanwhile. Y4M needs no decoding and is not
    /// kept, nor is what comes through a pipe.
    ///
    /// # Errors
    /// As [`Clip::open`].
    ///
    /// ```
    /// use framewire_media::{ClipOptions, Shelf};
    /// static CLIPS: Shelf = Shelf::new(128 << 20);
    /// let refused = CLIPS.open("no-such-clip.mp4".as_ref(), ClipOptions::default()).err().unwrap();
    /// assert!(refused.to_string().starts_with("no-such-clip.mp4: cannot be opened"));
    /// ```
    pub fn open(&self, path: &Path, options: ClipOptions) -> Result<Clip, ClipError> {
        let Some(written) = std::fs::metadata(path).ok().filter(|_| needs_ffmpeg(path, &options)) else {
            return Clip::open(path, options);
        };
        options.check(&path.display().to_string())?;
        Clip::begin(self.frames(path, written, &options)?, path.to_owned(), options)
    }

    fn frames(&self, path: &Path, written: Metadata, options: &ClipOptions) -> Result<Frames, ClipError> {
        let mut reels = self.reels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = reels.iter().position(|reel| reel.is(path, &written, options));
        let reel = match known {
            Some(at) => reels.remove(at),
            None => Arc::new(Reel::open(path, written, options, self.most)?),
        };
        reels.push(reel.clone());
        let surplus = reels.len().saturating_sub(REELS);
        reels.drain(..surplus);
        Ok(Frames::Kept(Player { reel, next: 0, alone: None }))
    }
}

/// A clip's pictures, as far as somebody wanted them.
struct Reel {
    path: PathBuf,
    written: Metadata,
    options: ClipOptions,
    header: Y4mHeader,
    /// Pictures that there is room for.
    most: usize,
    kept: Mutex<Kept>,
}

struct Kept {
    pictures: Vec<Arc<RawFrame>>,
    /// Where the next one comes from, while somebody plays.
    stream: Option<Stream>,
    /// The clip has no more.
    whole: bool,
    /// There was no room for all that was played, and nothing is kept any more.
    spilled: bool,
}

/// What a reel has at an index.
enum There {
    Picture(Arc<RawFrame>),
    End,
    /// Nothing is kept, or the clip broke off: who wants it reads it alone, from this stream if one is open.
    Beyond(Option<Stream>),
}

impl Reel {
    fn open(path: &Path, written: Metadata, options: &ClipOptions, most: usize) -> Result<Reel, ClipError> {
        let stream = open_stream(path, options)?;
        let header = stream.header();
        let most = most / (header.width * header.height * 3 / 2);
        let kept =
            Mutex::new(Kept { pictures: Vec::new(), stream: Some(stream), whole: false, spilled: false });
        Ok(Reel { path: path.to_owned(), written, options: options.clone(), header, most, kept })
    }

    fn is(&self, path: &Path, written: &Metadata, options: &ClipOptions) -> bool {
        let same = |one: &Metadata, other: &Metadata| {
            one.len() == other.len() && one.modified().ok() == other.modified().ok()
        };
        self.path == path && self.options.size == options.size && same(&self.written, written)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who plays waits for who decodes. Indices rise by one, so that what is not kept is what comes next.
    fn get(&self, index: usize) -> There {
        let mut kept = self.lock();
        if let Some(picture) = kept.pictures.get(index) {
            return There::Picture(picture.clone());
        }
        if kept.whole {
            return There::End;
        }
        if kept.spilled || kept.pictures.len() >= self.most {
            kept.spilled = true;
            kept.pictures = Vec::new();
            return There::Beyond(kept.stream.take());
        }
        match self.decode(&mut kept) {
            Ok(Some(picture)) => {
                let picture = Arc::new(picture);
                kept.pictures.push(picture.clone());
                There::Picture(picture)
            }
            Ok(None) => {
                (kept.whole, kept.stream) = (true, None);
                There::End
            }
            // Whoever looks for itself finds out why.
            Err(_) => There::Beyond(None),
        }
    }

    fn decode(&self, kept: &mut Kept) -> Result<Option<RawFrame>, ClipError> {
        let mut stream = match kept.stream.take() {
            Some(stream) => stream,
            None => open_at(&self.path, &self.options, kept.pictures.len())?,
        };
        let picture = stream.next_frame()?;
        kept.stream = Some(stream);
        Ok(picture)
    }
}

/// A clip's stream from its picture of this number on.
fn open_at(path: &Path, options: &ClipOptions, index: usize) -> Result<Stream, ClipError> {
    let mut stream = open_stream(path, options)?;
    for _ in 0..index {
        stream.next_frame()?;
    }
    Ok(stream)
}

/// Somebody who plays a reel.
pub(crate) struct Player {
    reel: Arc<Reel>,
    next: usize,
    /// Beyond what the reel has.
    alone: Option<Stream>,
}

impl Player {
    pub(crate) fn header(&self) -> Y4mHeader {
        self.reel.header
    }

    /// The next picture, `None` at the end.
    ///
    /// # Errors
    /// [`ClipError`] if the clip breaks off.
    pub(crate) fn next(&mut self) -> Result<Option<Arc<RawFrame>>, ClipError> {
        if self.alone.is_none() {
            match self.reel.get(self.next) {
                There::Picture(picture) => {
                    self.next += 1;
                    return Ok(Some(picture));
                }
                There::End => return Ok(None),
                There::Beyond(Some(stream)) => self.alone = Some(stream),
                There::Beyond(None) => {
                    self.alone = Some(open_at(&self.reel.path, &self.reel.options, self.next)?);
                }
            }
        }
        self.alone.as_mut().map_or(Ok(None), Stream::next_frame).map(|picture| picture.map(Arc::new))
    }

    /// Back to the first.
    pub(crate) fn rewind(&mut self) {
        (self.next, self.alone) = (0, None);
    }
}

impl Drop for Player {
    /// The last one takes ffmpeg along: a shelf lasts as long as the process.
    fn drop(&mut self) {
        // The shelf has one, too.
        if Arc::strong_count(&self.reel) <= 2 {
            self.reel.lock().stream = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, testing};

    const PICTURES: u64 = 5;

    /// A Y4M file, and its clip as a reel would have it if it had to be decoded.
    struct File {
        _folder: testing::TempFolder,
        path: PathBuf,
        frames: Vec<RawFrame>,
    }

    impl File {
        fn new() -> File {
            let folder = testing::TempFolder::new("shelf");
            let frames: Vec<_> = (0..PICTURES).map(|seed| testing::textured(32, 16, seed)).collect();
            let path = folder.path("five.y4m");
            testing::write_y4m(&path, &frames);
            File { _folder: folder, path, frames }
        }

        fn open(&self, shelf: &Shelf) -> Clip {
            let options = ClipOptions { loop_clip: true, ..ClipOptions::default() };
            let written = std::fs::metadata(&self.path).unwrap();
            let frames = shelf.frames(&self.path, written, &options).unwrap();
            Clip::begin(frames, self.path.clone(), options).unwrap()
        }
    }

    fn play(clip: &mut Clip, pictures: usize) -> Vec<Arc<RawFrame>> {
        std::iter::from_fn(|| clip.next_picture()).take(pictures).collect()
    }

    fn same(played: &[Arc<RawFrame>], frames: &[RawFrame]) -> bool {
        played.iter().zip(frames.iter().cycle()).all(|(played, frame)| **played == *frame)
    }

    #[test]
    fn clips_share_their_pictures_and_loop() {
        let (file, shelf) = (File::new(), Shelf::new(1 << 20));
        let (mut one, mut other) = (file.open(&shelf), file.open(&shelf));
        let (first, second) = (play(&mut one, 3), play(&mut other, 12));
        assert!(same(&first, &file.frames) && same(&second, &file.frames) && second.len() == 12);
        assert!(first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert!(Arc::ptr_eq(&second[0], &second[PICTURES as usize]));
    }

    #[test]
    fn without_room_nothing_is_kept_and_the_pictures_are_the_same() {
        for room in 0..=PICTURES as usize + 1 {
            let (file, shelf) = (File::new(), Shelf::new(room * 32 * 16 * 3 / 2));
            let (mut one, mut other) = (file.open(&shelf), file.open(&shelf));
            let (first, second) = (play(&mut one, 12), play(&mut other, 12));
            assert!(same(&first, &file.frames) && same(&second, &file.frames), "{room}");
            assert_eq!((first.len(), second.len()), (12, 12));
            // Where it is just full nobody knows yet that nothing follows.
            let fits = room > PICTURES as usize;
            let kept = shelf.reels.lock().unwrap()[0].lock().pictures.len();
            assert_eq!(kept, if fits { file.frames.len() } else { 0 }, "{room}");
            assert!(same(&play(&mut file.open(&shelf), 12), &file.frames));
        }
    }

    #[test]
    fn decoding_stops_with_the_last_player_and_goes_on_with_the_next() {
        let (file, shelf) = (File::new(), Shelf::new(1 << 20));
        let decoding = || shelf.reels.lock().unwrap()[0].lock().stream.is_some();
        let (mut one, other) = (file.open(&shelf), file.open(&shelf));
        play(&mut one, 2);
        drop(one);
        assert!(decoding());
        drop(other);
        assert!(!decoding());
        assert!(same(&play(&mut file.open(&shelf), 7), &file.frames));
    }

    #[test]
    fn a_file_that_was_written_again_is_read_again() {
        let (file, shelf) = (File::new(), Shelf::new(1 << 20));
        play(&mut file.open(&shelf), 5);
        testing::write_y4m(&file.path, &file.frames[3..]);
        assert!(same(&play(&mut file.open(&shelf), 5), &file.frames[3..]));
    }

    #[test]
    fn a_clip_that_breaks_off_ends_for_everybody() {
        let (file, shelf) = (File::new(), Shelf::new(1 << 20));
        let bytes = std::fs::read(&file.path).unwrap();
        std::fs::write(&file.path, &bytes[..bytes.len() - 9]).unwrap();
        for mut clip in [file.open(&shelf), file.open(&shelf)] {
            assert_eq!(play(&mut clip, 12).len(), 4);
            assert!(clip.trouble().unwrap().to_string().contains("middle of picture 4"));
        }
    }

    #[test]
    fn few_clips_are_kept() {
        let (files, shelf) = ([(); 4].map(|()| File::new()), Shelf::new(1 << 20));
        for file in &files {
            play(&mut file.open(&shelf), 5);
        }
        let kept: Vec<PathBuf> = shelf.reels.lock().unwrap().iter().map(|reel| reel.path.clone()).collect();
        assert_eq!(kept, [files[2].path.clone(), files[3].path.clone()]);
    }

    #[test]
    fn real_clips_are_decoded_once() {
        let Some(data) = testing::data_folder().filter(|_| testing::have_ffmpeg()) else {
            return println!("skipped: no data folder or no ffmpeg");
        };
        let (path, shelf) = (data.join("video/cif-classics/akiyo_cif.mp4"), Shelf::new(1 << 22));
        let options = ClipOptions { size: Some((176, 144)), ..ClipOptions::default() };
        let open = || shelf.open(&path, options.clone()).unwrap();
        let read = play(&mut Clip::open(&path, options.clone()).unwrap(), 9);
        let (one, other) = (play(&mut open(), 9), play(&mut open(), 9));
        assert_eq!((&one, &other), (&read, &read));
        assert!(one.iter().zip(&other).all(|(one, other)| Arc::ptr_eq(one, other)));
    }
}
