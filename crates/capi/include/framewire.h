/* Framewire: low-latency interactive video, for programs in C and C++.
 *
 * Made by cbindgen from crates/capi; docs/embedding-c.md says who owns what, and for how long.
 *
 *  - Times are nanoseconds on a clock of your own that never runs backwards (CLOCK_MONOTONIC). The library has none.
 *  - A handle belongs to one thread at a time. Different handles know nothing of each other.
 *  - Texts are UTF-8 and end with a NUL. What you hand in is copied or read before the call returns.
 *  - A struct with a member `size` is handed in with sizeof the struct there, and zeros for what you don't set.
 *  - A negative result is an error, and fw_last_error() says which.
 */

#ifndef FRAMEWIRE_H
#define FRAMEWIRE_H

#include <stddef.h>
#include <stdint.h>

// The ABI that this header describes. It grows when a function or struct changes so that a program must be
// compiled anew; functions and members that are added leave it as it is.
#define FW_ABI_VERSION 1

// The longest datagram (UDP payload) that is ever sent, in bytes: room for it is room for each.
#define FW_MAX_DATAGRAM 1500

// The least room to hand to `fw_sender_transmit` and `fw_receiver_transmit`, in bytes.
#define FW_LEAST_DATAGRAM 1150

// Stands where there is no limit: of a window, a rate or a size.
#define FW_NO_LIMIT UINT64_MAX

// Stands for a time that is not known or was not measured.
#define FW_UNKNOWN INT64_MIN

// What a call comes to. What is negative is an error, of which `fw_last_error` says more.
enum fw_result
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done; what was asked for is there.
  FW_OK = 0,
  // Nothing is there: no datagram to send, no frame, no time to wake at. No error.
  FW_NONE = 1,
  // A pointer is null that must not be.
  FW_ERR_NULL = -1,
  // A value can't be taken: an unknown name, a wrong size, a frame that was not asked for.
  FW_ERR_ARGUMENT = -2,
  // The library broke a rule of its own. The handle is of no more use, but to be freed.
  FW_ERR_PANIC = -3,
  // That has happened before.
  FW_ERR_POISONED = -4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fw_result fw_result;
#else
typedef int32_t fw_result;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What every sender under a congestion controller keeps, without media and without a wire format: packets
// in flight, round trips, losses, pacing, window.
typedef struct fw_core fw_core;

// The half of a controller that lives at the receiver (of Sprout, and of GCC's early forms): it sees
// packets arrive, and writes a few bytes for each report.
typedef struct fw_half fw_half;

// A receiver: puts frames together, asks for what is missing, reports what arrived, and says what is to be
// decoded and when it is to be shown.
typedef struct fw_receiver fw_receiver;

// A sender: what the host captures and codes goes out as fast as a congestion controller allows, lost
// packets are sent again while they are of use.
typedef struct fw_sender fw_sender;

// How a core is made, and the half of its controller at the receiver. What is zero or null has a default.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Largest datagram (UDP payload), 128 to 9000 bytes: what controllers count in. Default: 1200.
  uint32_t mtu;
  // Congestion controller with options: "gcc", "copa:delta=0.5". Default: that of the preset "default".
  const char *controller;
  // Lowest rate, in bit/s of datagrams. Default: 0.3 Mbit/s.
  uint64_t least_bps;
  // The rate to start at, in bit/s. Default: 2 Mbit/s.
  uint64_t initial_bps;
  // Highest rate, in bit/s. Default: 100 Mbit/s.
  uint64_t most_bps;
  // Time between pictures, in ns. Default: 60 a second.
  int64_t interval_ns;
  // Seed of what is random. Default: 1.
  uint64_t seed;
  // Not 0: there is always something to send, a file say, so that packets leave at the media rate.
  // Otherwise they come in bursts, one a picture, and each burst leaves as fast as the controller lets
  // it.
  uint32_t bulk;
  // Zero, for what may come.
  uint32_t reserved;
} fw_core_options;

// A packet that leaves.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Its length in bytes (UDP payload), 1 to 65535.
  uint32_t bytes;
  // The picture whose bytes it carries. Controllers that learn from frames' bursts (SQP) need it.
  uint32_t frame;
  // Which packet of the frame, from 0.
  uint16_t index;
  // How many the frame has; 0: the packet carries no frame's bytes.
  uint16_t count;
  // Not 0: what it carries was sent before.
  uint32_t retransmission;
  // Not 0: the host has nothing more to send after it at present.
  uint32_t last;
} fw_packet;

// A packet that arrived. Never grows: hosts hand in arrays of it.
typedef struct {
  // The number that `fw_core_sent` gave it.
  uint64_t packet;
  // When it arrived, in ns on the receiver's clock, whatever its zero.
  int64_t arrived_ns;
  // The ECN bits it arrived with, 0 to 3 (RFC 3168); 3 is "congestion experienced".
  uint32_t ecn;
  // Zero, for what may come.
  uint32_t reserved;
} fw_arrival;

// What the receiver says in one report.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Zero, for what may come.
  uint32_t reserved;
  // Packets that arrived, in any order. Those told before are passed over.
  const fw_arrival *arrivals;
  // Entries of `arrivals`; 0 where nothing arrived.
  size_t arrival_count;
  // When the receiver sent the report, in ns on its clock: what lies between the last arrival and this
  // is no part of a round trip.
  int64_t sent_ns;
  // What `fw_half_write` wrote at the receiver; null where the controller has no half there.
  const uint8_t *blob;
  // How many bytes, at most 255.
  size_t blob_length;
} fw_report;

// What the controller wants, and what is known of the path.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Not 0: a packet should leave for the sake of an answer, whatever the window (`fw_core_take_probe`).
  uint32_t probe;
  // The most bytes in flight; `FW_NO_LIMIT`.
  uint64_t window_bytes;
  // Bytes in flight.
  uint64_t in_flight_bytes;
  // The rate at which packets leave, in bit/s; `FW_NO_LIMIT`.
  uint64_t pacing_bps;
  // The rate to code at, headers and repairs included, in bit/s: the controller's advice, or its window
  // over the round trip, or its pacing rate. `FW_NO_LIMIT` of a controller that limits nothing.
  uint64_t media_bps;
  // Padding that the controller's probe of the path still wants, in bytes (`fw_core_padded`).
  uint64_t padding_bytes;
  // Smoothed round-trip time in ns; `FW_UNKNOWN` before the first report.
  int64_t srtt_ns;
  // The smallest round-trip time in ns; `FW_UNKNOWN` as above.
  int64_t min_rtt_ns;
  // Packets sent, ...
  uint64_t packets;
  // ... and their bytes.
  uint64_t bytes;
  // Packets given up as lost, ...
  uint64_t lost;
  // ... of which arrived after all.
  uint64_t spurious;
  // Probes for an answer that became due.
  uint64_t timeouts;
} fw_decision;

// A packet as the receiver saw it.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Its length in bytes (UDP payload).
  uint32_t bytes;
  // The number that `fw_core_sent` gave it at the sender. Packets may come in any order, each once.
  uint64_t packet;
  // When it was sent, in ns on the sender's clock.
  int64_t sent_ns;
  // Time since a report left that this packet is the first to confirm, in ns; `FW_UNKNOWN` if it
  // confirms none.
  int64_t rtt_ns;
  // The ECN bits it arrived with, 0 to 3.
  uint32_t ecn;
  // Zero, for what may come.
  uint32_t reserved;
} fw_received;

// How a receiver is made. What is zero or null has a default.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Session number, which both ends agree on. Default: the first one heard.
  uint32_t session;
  // Playout policy with options, which says when frames are shown: "at-once", "fixed:delay=100ms",
  // "adaptive". Default: at once.
  const char *playout;
  // Not 0: the host's decoder makes pictures of frames of which pieces are missing (`fw_coded.pieces`).
  uint32_t conceal;
  // Zero, for what may come.
  uint32_t reserved;
} fw_receiver_options;

// A frame to be decoded.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Its number, as the sender's host got it from `fw_sender_capture`.
  uint32_t frame;
  // Its bytes. They are yours to read until the next `fw_receiver_next_frame`.
  const uint8_t *data;
  // Length of `data` in bytes.
  size_t length;
  // When it was captured, in ns on the sender's clock, to 1 us; `FW_UNKNOWN` where a peer's packets claim
  // thousands of frames at once.
  int64_t captured_ns;
  // Not 0: it decodes without any earlier frame.
  uint32_t key;
  // Not 0: all of it is there.
  uint32_t complete;
} fw_frame;

// A frame to be shown.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Its number, as in `fw_frame`.
  uint32_t frame;
  // When it was captured, in ns on the sender's clock.
  int64_t captured_ns;
  // Not 0: its deadline has passed.
  uint32_t late;
  // Not 0: parts of it were missing.
  uint32_t concealed;
} fw_shown;

// How a receiver is doing; counts are since its start.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Not 0: the sender said that nothing more will come, and what came has been shown.
  uint32_t finished;
  // Packets accepted, ...
  uint64_t packets;
  // ... and their bytes.
  uint64_t bytes;
  // Feedback packets sent.
  uint64_t feedback;
  // Requests to send packets again.
  uint64_t nacks;
  // Key frames asked for.
  uint64_t key_requests;
  // Frames of which every packet arrived.
  uint64_t assembled;
  // Frames shown, ...
  uint64_t displayed;
  // ... of which after their deadline.
  uint64_t late;
  // Frames decoded and never shown, because a newer one was due as well.
  uint64_t passed_over;
  // Frames handed out though parts of them are missing.
  uint64_t concealed;
  // Frames given up, for want of packets or of time to decode them.
  uint64_t abandoned;
  // Frames that would not decode (`fw_receiver_decoder_failed`).
  uint64_t decode_errors;
  // Datagrams refused because they do not decode, ...
  uint64_t malformed;
  // ... are of another session or kind, ...
  uint64_t foreign;
  // ... had arrived before, ...
  uint64_t duplicates;
  // ... are of frames long gone, ...
  uint64_t stale;
  // ... are numbered impossibly far ahead, ...
  uint64_t far_future;
  // ... or found a buffer full.
  uint64_t buffer_full;
} fw_receiver_stats;

// How a sender is made. What is zero or null has a default.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Session number, which both ends agree on. Default: 1.
  uint32_t session;
  // Congestion controller with options, or a preset: "gcc", "copa:delta=0.5". Default: the preset
  // "default".
  const char *controller;
  // Rate policy with options. Default: what the preset says, or "live".
  const char *rate;
  // Recovery policy. Default: what the preset says, or "retransmit".
  const char *recovery;
  // Strategy with options, one that takes a single encoder. Default: "live".
  const char *strategy;
  // Lowest rate, in bit/s of datagrams. Default: the preset's, or 0.3 Mbit/s.
  uint64_t least_bps;
  // The rate to start at, in bit/s. Default: 2 Mbit/s.
  uint64_t initial_bps;
  // Highest rate, in bit/s. Default: 100 Mbit/s.
  uint64_t most_bps;
  // Time between pictures, in ns. Default: 60 a second.
  int64_t interval_ns;
  // How long after its capture a frame is worth showing, in ns. Default: what suits the path, 400 ms or
  // more.
  int64_t deadline_ns;
  // Seed of what is random. Default: the session number.
  uint64_t seed;
  // Largest datagram (UDP payload), 128 to 1472 bytes. Default: 1200.
  uint32_t mtu;
  // Width of pictures in pixels, announced to the receiver. With it and the height, a rate policy may
  // ask for fewer rows (`fw_plan.rows`). Default: not announced.
  uint16_t width;
  // Height of pictures in pixels.
  uint16_t height;
} fw_sender_options;

// What is to be coded.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Which picture, as `fw_sender_capture` numbered it: the one just captured, or one shortly before it.
  uint32_t frame;
  // Bitrate to code at from here on, in bit/s of coded picture.
  uint64_t bitrate_bps;
  // What that makes for this frame, in bytes.
  uint64_t budget_bytes;
  // The most it should have if it is predicted from nothing, in bytes; `FW_NO_LIMIT`.
  uint64_t largest_bytes;
  // Not 0: a key frame is needed, which decodes without any earlier frame.
  uint32_t key;
  // Rows to code the picture with; 0: as many as it has.
  uint32_t rows;
} fw_plan;

// A frame that the host has coded.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Which: `fw_plan.frame`.
  uint32_t frame;
  // Its bytes, which are copied. None, with a length of 0: the frame was not coded after all.
  const uint8_t *data;
  // Length of `data` in bytes; 0 for a frame that was not coded.
  size_t length;
  // Where pieces end that decode without the rest of the frame (slices), in bytes from its start,
  // rising, the last one at its end. Null: there are none.
  const uint32_t *pieces;
  // How many pieces.
  size_t piece_count;
  // Not 0: it decodes without any earlier frame.
  uint32_t key;
  // Zero, for what may come.
  uint32_t reserved;
} fw_coded;

// How a sender is doing; counts are since its start.
typedef struct {
  // sizeof this struct.
  uint32_t size;
  // Not 0: everything was sent after `fw_sender_end`, and the receiver has been told.
  uint32_t finished;
  // Smoothed round-trip time in ns; `FW_UNKNOWN` before the first answer.
  int64_t srtt_ns;
  // How far it lies above the smallest one, in ns: what waits in queues. `FW_UNKNOWN` as above.
  int64_t queue_delay_ns;
  // What the latest frame was planned with, in bit/s of datagrams; `FW_NO_LIMIT` before the first.
  uint64_t target_bps;
  // The controller's advice for media, in bit/s; `FW_NO_LIMIT` if it gives none.
  uint64_t media_bps;
  // The rate at which packets leave, in bit/s; `FW_NO_LIMIT`.
  uint64_t pacing_bps;
  // The most bytes in flight; `FW_NO_LIMIT`.
  uint64_t window_bytes;
  // Datagrams of media and padding sent, ...
  uint64_t packets;
  // ... and their bytes.
  uint64_t bytes;
  // Packets of frames sent again.
  uint64_t retransmissions;
  // Packets given up as lost, ...
  uint64_t lost;
  // ... of which arrived after all.
  uint64_t spurious;
  // Probes sent because nothing was heard.
  uint64_t timeouts;
  // Pictures captured, ...
  uint64_t captured;
  // ... not coded, because the sender was behind or the host left them out, ...
  uint64_t skipped;
  // ... and coded.
  uint64_t encoded;
  // Coded frames dropped unsent or half sent: they had waited too long.
  uint64_t expired;
  // Datagrams refused because they do not decode, ...
  uint64_t malformed;
  // ... are of another session or kind, ...
  uint64_t foreign;
  // ... or report packets that were never sent.
  uint64_t implausible;
} fw_sender_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The release, as text (`"0.1.0"`). It stays valid.
const char *fw_version(void);

// The ABI of the library that was found at run time. Compare it with `FW_ABI_VERSION`, which the program was
// compiled with.
uint32_t fw_abi_version(void);

// Writes the name of controller number `index` (from 0) to `name`, cut off where `capacity` bytes with its
// NUL do not hold it. `FW_NONE` if there are no more.
fw_result fw_controller_name(size_t index, char *name, size_t capacity);

// Makes a core and leaves it at `out`. It is yours: free it with `fw_core_free`. A controller of which a
// half lives at the receiver is blind without that: see `fw_half_new`.
fw_result fw_core_new(const fw_core_options *options, fw_core **out);

// Frees a core; of a null one, does nothing.
void fw_core_free(fw_core *core);

// Something waits to be sent: leaves at `at` when the next packet may leave, which is now if it lies in
// the past. `FW_NONE` while the window is full.
fw_result fw_core_next_send(fw_core *core, int64_t now, int64_t *at);

// A packet leaves now. Leaves the number that it gets at `number`: 0, 1, 2 and so on. The receiver must be
// able to tell it.
fw_result fw_core_sent(fw_core *core, int64_t now, const fw_packet *packet, uint64_t *number);

// A report came from the receiver. Afterwards `fw_core_next_lost` says what was lost, and `fw_core_decide`
// what the controller makes of it. An error if it names a packet that was never sent; nothing has changed
// then.
fw_result fw_core_heard(fw_core *core, int64_t now, const fw_report *report);

// Leaves the number of the next packet that was given up as lost at `number`, until `FW_NONE`. Each is
// told once.
fw_result fw_core_next_lost(fw_core *core, uint64_t *number);

// Time has passed: packets may be lost, a probe may be due, the controller has timers. Early or often does
// no harm.
fw_result fw_core_wake(fw_core *core, int64_t now);

// Leaves at `at` when `fw_core_wake` is wanted next; `FW_NONE`: no time brings anything.
fw_result fw_core_next_wake(fw_core *core, int64_t *at);

// Takes up that a packet should leave for the sake of an answer: `FW_OK`, and the host sends one now,
// whatever the window; `FW_NONE` if none is wanted.
fw_result fw_core_take_probe(fw_core *core);

// Of the padding that the controller's probe wants (`fw_decision.padding_bytes`), so many bytes leave now.
// Enter their packets with `fw_core_sent`, too.
fw_result fw_core_padded(fw_core *core, size_t bytes);

// Writes what the controller wants now to `decision`, whose size the host has set.
fw_result fw_core_decide(fw_core *core, fw_decision *decision);

// What was wrong with the last call on this thread that came to an error, as text; empty if none has. It is
// yours to read until the next call on this thread that comes to one.
const char *fw_last_error(void);

// Makes the half at the receiver of a controller that was made with the same options, and leaves it at
// `out`. `FW_NONE`, and a null pointer there, if the controller has none. It is yours: free it with
// `fw_half_free`.
fw_result fw_half_new(const fw_core_options *options, fw_half **out);

// Frees a half; of a null one, does nothing.
void fw_half_free(fw_half *half);

// A packet arrived at `now`, on the receiver's clock.
fw_result fw_half_received(fw_half *half, int64_t now, const fw_received *packet);

// Time has passed. Early or often does no harm.
fw_result fw_half_wake(fw_half *half, int64_t now);

// Leaves at `at` when `fw_half_wake` is wanted next; `FW_NONE`: no time brings anything.
fw_result fw_half_next_wake(fw_half *half, int64_t *at);

// Leaves at `at` when a report should go for this half's sake; `FW_NONE` if its news can wait for the next
// one.
fw_result fw_half_due(fw_half *half, int64_t *at);

// Writes what the other half is to hear to `out`, and its length to `length`: `fw_report.blob` of the
// report that leaves now. `capacity` is 255 at least.
fw_result fw_half_write(fw_half *half, int64_t now, uint8_t *out, size_t capacity, size_t *length);

// Makes a receiver and leaves it at `out`. It is yours: free it with `fw_receiver_free`.
fw_result fw_receiver_new(const fw_receiver_options *options, fw_receiver **out);

// Frees a receiver, and the frame that it lent; of a null one, does nothing.
void fw_receiver_free(fw_receiver *receiver);

// A datagram of `length` bytes came from the sender.
fw_result fw_receiver_receive(fw_receiver *receiver, int64_t now, const uint8_t *data, size_t length);

// Time has passed. Early or often does no harm.
fw_result fw_receiver_wake(fw_receiver *receiver, int64_t now);

// Leaves at `at` when `fw_receiver_wake` is wanted next; what lies in the past is wanted at once.
// `FW_NONE`: no time brings anything.
fw_result fw_receiver_next_wake(fw_receiver *receiver, int64_t *at);

// Writes the next datagram for the sender to `out` and its length to `length`; `FW_NONE` if there is none
// now. As `fw_sender_transmit`.
fw_result fw_receiver_transmit(fw_receiver *receiver,
                               int64_t now,
                               uint8_t *out,
                               size_t capacity,
                               size_t *length);

// Lends the next frame to decode, until `FW_NONE`. Frames come in the order of decoding, and each counts
// as decoded when the next one is asked for; ask after `fw_receiver_receive` and `fw_receiver_wake`. With
// four frames that nobody takes, later ones wait, and are given up when their deadlines have passed.
fw_result fw_receiver_next_frame(fw_receiver *receiver, int64_t now, fw_frame *frame);

// The frame lent at present would not decode or, if none is, one before it: the sender is asked for a key
// frame, and frames until then count as failed. Call it before the next `fw_receiver_next_frame`.
fw_result fw_receiver_decoder_failed(fw_receiver *receiver);

// Says which frame is to be shown now, until `FW_NONE`: each at most once, in order, of those that were
// decoded. Ask after `fw_receiver_next_frame`; a host that shows all it has decoded need not ask at all.
fw_result fw_receiver_next_shown(fw_receiver *receiver, fw_shown *shown);

// Whether this receiver can follow the sender's controller: an error where that has a half that lives at the
// receiver and this library does not know it. The sender is then not answered.
fw_result fw_receiver_check(fw_receiver *receiver);

// Writes how the receiver is doing to `stats`, whose size the host has set.
fw_result fw_receiver_get_stats(fw_receiver *receiver, fw_receiver_stats *stats);

// Makes a sender and leaves it at `out`. It is yours: free it with `fw_sender_free`.
fw_result fw_sender_new(const fw_sender_options *options, fw_sender **out);

// Frees a sender; of a null one, does nothing.
void fw_sender_free(fw_sender *sender);

// A picture is there, captured at `captured_ns`, which is `now` or before. Leaves its number at `frame`,
// which may be null. Ask `fw_sender_next_frame` next. `FW_NONE` after `fw_sender_end`.
fw_result fw_sender_capture(fw_sender *sender, int64_t now, int64_t captured_ns, uint32_t *frame);

// Says what is to be coded next, until `FW_NONE`: the picture just captured, nothing where the path is
// behind, and maybe a picture after all that was left out a moment ago. Ask after each `fw_sender_capture`
// and `fw_sender_wake`. Answer each plan with `fw_sender_frame`: with several unanswered, pictures are
// left out.
fw_result fw_sender_next_frame(fw_sender *sender, fw_plan *plan);

// Takes a frame that the host has coded. One that was asked for before it and is not there yet counts as
// failed.
fw_result fw_sender_frame(fw_sender *sender, int64_t now, const fw_coded *coded);

// A datagram of `length` bytes came from the receiver.
fw_result fw_sender_receive(fw_sender *sender, int64_t now, const uint8_t *data, size_t length);

// Time has passed. Early or often does no harm.
fw_result fw_sender_wake(fw_sender *sender, int64_t now);

// Leaves at `at` when `fw_sender_wake` is wanted next; what lies in the past is wanted at once. `FW_NONE`:
// no time brings anything.
fw_result fw_sender_next_wake(fw_sender *sender, int64_t *at);

// Writes the next datagram for the receiver to `out` and its length to `length`; `FW_NONE` if none may
// leave now. Ask until then after every other call. `capacity` says how long a datagram may be at present:
// `FW_LEAST_DATAGRAM` at least, best `FW_MAX_DATAGRAM` where the host does not know its path.
fw_result fw_sender_transmit(fw_sender *sender, int64_t now, uint8_t *out, size_t capacity, size_t *length);

// Holds media to `bps` bit/s from here on, whatever the controller advises, but not below the lowest rate.
// `FW_NO_LIMIT`: no longer.
fw_result fw_sender_set_most(fw_sender *sender, uint64_t bps);

// Captures nothing more; what was captured is still sent, and the receiver told.
// `fw_sender_stats.finished` says when that is done.
fw_result fw_sender_end(fw_sender *sender);

// Writes how the sender is doing to `stats`, whose size the host has set.
fw_result fw_sender_get_stats(fw_sender *sender, fw_sender_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWIRE_H */
