//! The same list for players of DASH (ISO/IEC 23009-1).

use std::fmt::Write;

use units::Rate;

use super::{Playlist, Segment, after, date, rounded};
use crate::mp4::{Description, TIMESCALE};

impl Playlist {
    /// The media presentation description: `dynamic` until the end, then `static`. `most` is the highest rate
    /// of a segment, which players weigh against what their network carries.
    ///
    /// Every file is named by itself (`SegmentList` with `SegmentTimeline`, section 5.3.9.3), as names of
    /// versions follow no template. Where the date of media time zero is unknown, 1970 begins there.
    /// Media times stay as they are when the list ends, so that a player goes on where it is.
    pub fn to_dash(&self, of: &Description, most: Rate) -> String {
        let (life, list) = (self.life(), self.segment_list());
        let Description { width, height, .. } = of;
        let (codec, bandwidth) = (of.codec(), most.as_bps().max(1));
        format!(
            r#"<?xml version="1.0" encoding="utf-8"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:full:2011"
{life} minBufferTime="PT{target}S">
<Period id="0" start="PT0S">
<AdaptationSet id="0" contentType="video" mimeType="video/mp4" segmentAlignment="true" startWithSAP="1">
<Representation id="0" codecs="{codec}" width="{width}" height="{height}" bandwidth="{bandwidth}">
{list}</Representation>
</AdaptationSet>
</Period>
</MPD>
"#,
            target = self.target
        )
    }

    /// What of the description changes with time.
    fn life(&self) -> String {
        let end = self.last.as_ref().map_or(0, Segment::ends);
        if self.ended {
            return format!(r#"type="static" mediaPresentationDuration="{}""#, seconds(end));
        }
        let began = self.settings.began.unwrap_or(0);
        let (start, now) = (date::rfc3339(began), date::rfc3339(after(began, end)));
        let target = self.target;
        let depth = self.least().map(|ticks| format!(r#" timeShiftBufferDepth="{}""#, seconds(ticks)));
        format!(
            r#"type="dynamic" availabilityStartTime="{start}" publishTime="{now}"
minimumUpdatePeriod="PT{target}S"{}"#,
            depth.unwrap_or_default()
        )
    }

    fn segment_list(&self) -> String {
        // No `startNumber`: segments are told apart by their times, and ffmpeg (libavformat/dashdec.c) takes
        // the number for a place in the list, so that it finds nothing once the list's beginning has gone.
        let mut text = format!("<SegmentList timescale=\"{TIMESCALE}\">\n");
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("strings take all");
        line(format_args!("<Initialization sourceURL=\"{}\"/>\n<SegmentTimeline>", self.settings.header));
        for (begins, duration, repeats) in self.runs() {
            line(format_args!("<S t=\"{begins}\" d=\"{duration}\" r=\"{repeats}\"/>"));
        }
        line(format_args!("</SegmentTimeline>"));
        self.listed.iter().for_each(|segment| line(format_args!("<SegmentURL media=\"{}\"/>", segment.path)));
        line(format_args!("</SegmentList>"));
        text
    }

    /// Segments of one length in a row: where they begin, the length, and how many more there are.
    fn runs(&self) -> Vec<(u64, u32, u32)> {
        let mut runs: Vec<(u64, u32, u32)> = Vec::new();
        for &Segment { begins, duration, .. } in &self.listed {
            match runs.last_mut().filter(|(_, same, _)| *same == duration) {
                Some((_, _, repeats)) => *repeats += 1,
                None => runs.push((begins, duration, 0)),
            }
        }
        runs
    }
}

/// Ticks as a length of time in XML, to the millisecond.
fn seconds(ticks: u64) -> String {
    let ms = rounded(ticks, 1_000);
    format!("PT{}.{:03}S", ms / 1_000, ms % 1_000)
}
