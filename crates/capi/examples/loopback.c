/* A sender and a receiver in one program: a synthetic coder's frames over a link of 6 Mbit/s with 20 ms each way,
 * which loses one packet in fifty. Time is virtual, so each run prints the same.
 *
 *     cc -std=c11 -I crates/capi/include crates/capi/examples/loopback.c -L target/release -lframewire_c -o loopback
 */
#include "framewire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define FRAMES 300
#define INTERVAL (INT64_C(1000000000) / 60)
#define LINK_BPS 6000000
#define DELAY (20 * MS)
#define ON_THE_WAY 512

/* One direction of the link: a queue that holds up to 100 ms, then the way. */
struct link {
    struct { int64_t arrives; size_t length; uint8_t bytes[FW_MAX_DATAGRAM]; } packets[ON_THE_WAY];
    size_t first, count;
    int64_t free_at;
    uint32_t chance;
    unsigned lost;
};

static void check(fw_result result, const char *call)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, fw_last_error());
        exit(1);
    }
}

static void enqueue(struct link *link, int64_t now, const uint8_t *bytes, size_t length)
{
    link->chance = link->chance * 1664525u + 1013904223u;
    int64_t begins = link->free_at > now ? link->free_at : now;
    if (link->chance >> 16 < 65536 / 50 || begins - now > 100 * MS || link->count == ON_THE_WAY) {
        link->lost++;
        return;
    }
    link->free_at = begins + (int64_t)length * 8 * 1000 * MS / LINK_BPS;
    size_t at = (link->first + link->count++) % ON_THE_WAY;
    link->packets[at].arrives = link->free_at + DELAY;
    link->packets[at].length = length;
    memcpy(link->packets[at].bytes, bytes, length);
}

/* Hands what has arrived by now to the one or the other. */
static void deliver(struct link *link, int64_t now, fw_sender *sender, fw_receiver *receiver)
{
    for (; link->count > 0 && link->packets[link->first].arrives <= now; link->count--) {
        const uint8_t *bytes = link->packets[link->first].bytes;
        size_t length = link->packets[link->first].length;
        check(sender != NULL ? fw_sender_receive(sender, now, bytes, length)
                             : fw_receiver_receive(receiver, now, bytes, length), "receive");
        link->first = (link->first + 1) % ON_THE_WAY;
    }
}

/* A frame of this synthetic coder: its number, then bytes that follow from it. */
static void fill(uint8_t *bytes, size_t length, uint32_t frame)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i < 4 ? frame >> (8 * i) : frame * 31 + i);
}

static void send_frame(fw_sender *sender, int64_t now)
{
    fw_plan plan = { .size = sizeof plan };
    check(fw_sender_capture(sender, now, now, NULL), "capture");
    while (fw_sender_next_frame(sender, &plan) == FW_OK) {
        /* A real host has its encoder make this, at plan.bitrate_bps, and comes back when that is done. */
        uint64_t size = plan.budget_bytes * (plan.key ? 2 : 1);
        size_t length = (size_t)(size < plan.largest_bytes ? size : plan.largest_bytes);
        uint8_t *bytes = malloc(length < 4 ? 4 : length);
        if (bytes == NULL)
            exit(1);
        fill(bytes, length, plan.frame);
        fw_coded coded = { .size = sizeof coded, .frame = plan.frame, .key = plan.key };
        coded.data = bytes;
        coded.length = length;
        check(fw_sender_frame(sender, now, &coded), "frame");
        free(bytes); /* the sender has its own copy */
    }
}

/* Takes what is to be decoded; returns how many frames are what was sent. */
static unsigned decode(fw_receiver *receiver, int64_t now, int64_t *delay)
{
    static uint8_t expected[1 << 20];
    unsigned good = 0;
    fw_frame frame = { .size = sizeof frame };
    while (fw_receiver_next_frame(receiver, now, &frame) == FW_OK) {
        fill(expected, frame.length, frame.frame);
        if (memcmp(frame.data, expected, frame.length) != 0)
            check(fw_receiver_decoder_failed(receiver), "decoder_failed");
        else
            good++;
        *delay += now - frame.captured_ns; /* one clock here; elsewhere two */
    }
    return good;
}

static struct link there = { .chance = 1 }, back = { .chance = 2 };

int main(int argc, char **argv)
{
    fw_sender_options options = { .size = sizeof options, .interval_ns = INTERVAL, .most_bps = 20000000 };
    options.controller = argc > 1 ? argv[1] : NULL; /* "gcc", "copa:delta=0.1"; NULL: the default */
    fw_receiver_options listening = { .size = sizeof listening };
    fw_sender *sender;
    fw_receiver *receiver;
    if (fw_abi_version() != FW_ABI_VERSION)
        return 1;
    check(fw_sender_new(&options, &sender), "sender");
    check(fw_receiver_new(&listening, &receiver), "receiver");

    unsigned captured = 0, good = 0;
    int64_t delay = 0;
    uint8_t datagram[FW_MAX_DATAGRAM];
    size_t length;
    fw_sender_stats sent = { .size = sizeof sent };
    for (int64_t now = 0; !sent.finished && now < 20000 * MS; now += MS / 4) {
        if (captured < FRAMES && now >= captured * INTERVAL) {
            send_frame(sender, now);
            captured++;
        } else if (captured == FRAMES) {
            check(fw_sender_end(sender), "end");
        }
        deliver(&back, now, sender, NULL);
        deliver(&there, now, NULL, receiver);
        check(fw_sender_wake(sender, now), "wake");
        check(fw_receiver_wake(receiver, now), "wake");
        good += decode(receiver, now, &delay);
        while (fw_sender_transmit(sender, now, datagram, sizeof datagram, &length) == FW_OK)
            enqueue(&there, now, datagram, length);
        while (fw_receiver_transmit(receiver, now, datagram, sizeof datagram, &length) == FW_OK)
            enqueue(&back, now, datagram, length);
        check(fw_sender_get_stats(sender, &sent), "stats");
    }

    fw_receiver_stats got = { .size = sizeof got };
    check(fw_receiver_get_stats(receiver, &got), "stats");
    printf("framewire %s: %u frames captured, %u coded, %u arrived as they were sent\n", fw_version(), captured,
           (unsigned)sent.encoded, good);
    printf("%.2f Mbit/s over a link of %.2f; %u of %u packets lost, %u sent again; round trip %.1f ms\n",
           (double)sent.bytes * 8 / (FRAMES / 60.0) / 1e6, LINK_BPS / 1e6, there.lost, (unsigned)sent.packets,
           (unsigned)sent.retransmissions, (double)sent.srtt_ns / (double)MS);
    printf("capture to decoder %.1f ms in the mean; %u key frames asked for\n",
           good ? (double)delay / (double)good / (double)MS : 0.0, (unsigned)got.key_requests);
    fw_sender_free(sender);
    fw_receiver_free(receiver);
    return good > FRAMES * 9 / 10 && got.decode_errors == 0 && sent.finished ? 0 : 1;
}
