//! A page of pictures: the same frame of each clip under losses, of ViXNN and of H.264. People look before
//! they read.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lab::files::{WriteError, write_text, write_whole};
use report::escape;
use vixnn::{Decoder, Encoder, Picture};

use super::channel::Channel;
use super::pictures::{Quality, clip, clips, quality};
use super::study::{Codec, Summary};
use super::{descriptors, ffmpeg, objectives, stills};

/// Rows: what a codec is called in a formula, and on the page.
const ROWS: [(&str, &str); 6] = [
    ("vixnn", "ViXNN"),
    ("vixnn8 permuted", "ViXNN8, permuted"),
    ("gop8 whole", "H.264, one slice"),
    ("gop8", "H.264, slices"),
    ("intra", "intra refresh"),
    ("fec", "slices, FEC"),
];
/// Columns: shares of packets lost, in percent.
const LOSSES: [u32; 4] = [0, 5, 10, 20];
/// Pictures of the Kodak suite with much colour: caps, parrots.
const STILLS: [u32; 2] = [3, 23];
/// Numbers of descriptors they are shown with.
const FEW: [usize; 4] = [1, 2, 4, 8];

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Clips, networks or ffmpeg are not there, or ffmpeg failed.
    #[error("{0}")]
    Made(String),
    /// It can't be written.
    #[error(transparent)]
    Written(#[from] WriteError),
}

impl From<String> for PageError {
    fn from(what: String) -> PageError {
        PageError::Made(what)
    }
}

/// A picture of the page.
struct Cell {
    file: String,
    frame: usize,
    quality: Quality,
    summary: Summary,
}

/// Writes `pictures.html` and its pictures into `folder`, and says where the page is. Each clip is shown
/// twice: at one frame, and at the frame that each codec shows worst.
///
/// # Errors
/// [`PageError`] if the clips, the networks or ffmpeg with x264 are not there, or nothing can be written.
pub fn page(folder: &Path) -> Result<PathBuf, PageError> {
    let images = folder.join("pictures");
    std::fs::create_dir_all(&images).map_err(|source| WriteError { path: images.clone(), source })?;
    let mut body = String::from(
        "<header><p class=\"brand\">Framewire</p><h1>ViXNN and H.264 under packet loss</h1>\
         <p class=\"lead\">The same frame of a clip with 0, 5, 10 and 20 % of packets lost, at 0.5 bit a pixel. \
         H.264 by x264: a key frame every eight (or intra refresh), one slice a frame or slices that fit a packet, FEC(10, 7). Every number is SSIM of luma: of the picture, then mean and least of the clip.</p></header>\n",
    );
    for name in clips() {
        let frames = clip(name)?.pictures.len();
        // The last before a key frame of those that come every eight, two thirds into the clip.
        let fixed = (frames * 2 / 3) / 8 * 8 + 7;
        let _ = write!(body, "<h2>{}, frame {fixed}</h2>", escape(name));
        body.push_str(&table(name, &images, Some(fixed.min(frames - 1)))?);
        let _ = write!(body, "<h2>{}, each one's worst frame</h2>", escape(name));
        body.push_str(&table(name, &images, None)?);
    }
    body.push_str(
        "<h2>Trained to show less under loss</h2>\
         <p>Figure 5.9: where at most four of the eight descriptors arrive, <b>grey</b> was trained to show the picture without colour, <b>levels</b> with four levels of each colour; \
         the first row shows what it can. The numbers are PSNR and SSIM of luma.</p>\n",
    );
    for number in STILLS {
        body.push_str(&few_table(number, &images)?);
    }
    let path = folder.join("pictures.html");
    write_text(&path, &report::page("ViXNN and H.264 under packet loss", &body))?;
    Ok(path)
}

fn table(name: &str, images: &Path, frame: Option<usize>) -> Result<String, PageError> {
    let mut text = String::from("<div class=\"card scroll\"><table><thead><tr><th></th>");
    LOSSES.iter().for_each(|percent| {
        let _ = write!(text, "<th>{percent} % lost</th>");
    });
    text.push_str("</tr></thead><tbody>");
    for (codec, title) in ROWS {
        let _ = write!(text, "<tr><th>{}</th>", escape(title));
        for percent in LOSSES {
            let cell = cell(name, codec, percent, images, frame)?;
            let _ = write!(
                text,
                "<td><img src=\"pictures/{}\" alt=\"{}, {percent} % lost\" width=\"224\"><br>frame {}: {:.3}<br>mean {:.3}, least {:.3}</td>",
                escape(&cell.file),
                escape(title),
                cell.frame,
                cell.quality.ssim,
                cell.summary.ssim,
                cell.summary.least_ssim
            );
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>\n");
    Ok(text)
}

/// A picture of the Kodak suite of few and of many descriptors, by networks with different objectives.
fn few_table(number: u32, images: &Path) -> Result<String, PageError> {
    let all = stills::pictures("small")?;
    let picture = &all[number as usize - 1];
    let mut text = String::from("<div class=\"card scroll\"><table><thead><tr><th></th>");
    FEW.iter().for_each(|count| {
        let _ = write!(text, "<th>{count} of 8</th>");
    });
    text.push_str("</tr></thead><tbody>");
    for network in objectives::NETWORKS {
        let model = descriptors::model(network)?;
        let received = stills::by_count(&Encoder::new(model.clone(), 1).encode(picture), false, number - 1);
        let mut decoder = Decoder::new(model, 1);
        let _ = write!(text, "<tr><th>{network}</th>");
        for count in FEW {
            let shown = decoder.decode(&received[count - 1]);
            let of = quality(picture, &shown)?;
            let file = format!("kodak-{number}-{network}-{count}.png");
            let bytes = png(&shown)?;
            write_whole(&images.join(&file), |out| out.write_all(&bytes))?;
            let _ = write!(
                text,
                "<td><img src=\"pictures/{file}\" alt=\"{network}, {count} descriptors\" width=\"224\"><br>{:.1} dB, {:.3}</td>",
                of.psnr, of.ssim
            );
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>\n");
    Ok(text)
}

fn cell(
    name: &str,
    codec: &str,
    percent: u32,
    images: &Path,
    frame: Option<usize>,
) -> Result<Cell, PageError> {
    let (codec, channel) = (Codec::parse(codec)?, Channel::Loss(f64::from(percent) / 100.0));
    let worst = |qualities: &[Quality]| {
        let by_ssim = |a: &usize, b: &usize| qualities[*a].ssim.total_cmp(&qualities[*b].ssim);
        (0..qualities.len()).min_by(by_ssim).unwrap_or(0)
    };
    let frame = match frame {
        Some(frame) => frame,
        // The same draw again shows the same.
        None => worst(&codec.send(name, channel, 1, &[])?.qualities),
    };
    let shown = codec.send(name, channel, 1, &[frame])?;
    let picture = shown.kept.get(&frame).ok_or_else(|| format!("{name} has no frame {frame}"))?;
    let of = quality(&clip(name)?.pictures[frame], picture)?;
    let file: String = format!("{name}-{frame}-{percent}-{codec:?}.png");
    let file: String = file.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    let bytes = png(picture)?;
    write_whole(&images.join(&file), |out| out.write_all(&bytes))?;
    Ok(Cell { file, frame, quality: of, summary: Summary::of(&shown.qualities) })
}

fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    let input = ffmpeg::raw_input("rgb24", picture.width, picture.height);
    let output = ["-c:v", "png", "-f", "image2pipe", "pipe:1"];
    let arguments = [["-v", "error"].as_slice(), &ffmpeg::borrowed(&input), &output].concat();
    Ok(ffmpeg::run(&arguments, &picture.rgb)?.out)
}
