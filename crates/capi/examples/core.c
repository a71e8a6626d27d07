/* The transport core alone: a transport of the host's own asks it when to send, and tells it what arrived. Ten
 * seconds over a link of 10 Mbit/s with 20 ms each way, in virtual time, so each run prints the same.
 *
 *     cc -std=c11 -I crates/capi/include crates/capi/examples/core.c -L target/release -lframewire_c -o core
 */
#include "framewire.h"

#include <stdio.h>
#include <stdlib.h>

#define MS INT64_C(1000000)
#define SECONDS 10
#define LINK_BPS 10000000
#define DELAY (20 * MS)
#define PACKET 1200
#define ON_THE_WAY 4096

static void check(fw_result result, const char *call)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", call, fw_last_error());
        exit(1);
    }
}

/* What the receiver will report. */
static struct { fw_arrival arrival; int64_t sent, heard; } way[ON_THE_WAY];
static size_t first, count;
static int64_t link_free_at, waited;
static unsigned sent, dropped, arrived;

/* A packet leaves: onto the link, unless its queue holds more than 100 ms. */
static void transmit(fw_core *core, int64_t now)
{
    fw_packet packet = { .size = sizeof packet, .bytes = PACKET };
    uint64_t number;
    check(fw_core_sent(core, now, &packet, &number), "sent");
    int64_t begins = link_free_at > now ? link_free_at : now;
    sent++;
    if (begins - now > 100 * MS || count == ON_THE_WAY) {
        dropped++;
        return;
    }
    waited += begins - now;
    link_free_at = begins + INT64_C(8) * PACKET * 1000 * MS / LINK_BPS;
    size_t at = (first + count++) % ON_THE_WAY;
    way[at].arrival = (fw_arrival){ .packet = number, .arrived_ns = link_free_at + DELAY };
    way[at].sent = now;
    way[at].heard = link_free_at + 2 * DELAY;
}

/* What has come back by now, as one report. `half` lives at the receiver of some controllers; of most it is null. */
static void hear(fw_core *core, fw_half *half, int64_t now)
{
    fw_arrival arrivals[64];
    uint8_t word[255];
    size_t told = 0, length = 0;
    int64_t at = 0; /* on the receiver's clock */
    for (; told < 64 && count > 0 && way[first].heard <= now; count--) {
        arrivals[told] = way[first].arrival;
        at = arrivals[told].arrived_ns;
        fw_received packet = { .size = sizeof packet, .bytes = PACKET, .packet = arrivals[told].packet };
        packet.sent_ns = way[first].sent;
        packet.rtt_ns = FW_UNKNOWN;
        if (half != NULL) {
            check(fw_half_wake(half, at), "wake");
            check(fw_half_received(half, at, &packet), "received");
        }
        told++;
        first = (first + 1) % ON_THE_WAY;
    }
    if (told == 0)
        return;
    if (half != NULL)
        check(fw_half_write(half, at, word, sizeof word, &length), "write");
    fw_report report = { .size = sizeof report, .arrivals = arrivals, .arrival_count = told };
    report.blob = word;
    report.blob_length = length;
    report.sent_ns = at;
    check(fw_core_heard(core, now, &report), "heard");
    arrived += (unsigned)told;
}

int main(int argc, char **argv)
{
    fw_core_options options = { .size = sizeof options, .controller = argc > 1 ? argv[1] : "copa" };
    options.bulk = 1; /* there is always something to send here */
    fw_core *core;
    fw_half *half; /* each end makes its own, with the same options; most controllers have none: FW_NONE */
    int64_t at;
    uint64_t lost, losses = 0;
    check(fw_core_new(&options, &core), "core");
    check(fw_half_new(&options, &half), "half");
    for (int64_t now = 0; now < SECONDS * 1000 * MS; now += MS / 2) {
        hear(core, half, now);
        check(fw_core_wake(core, now), "wake");
        while (fw_core_next_lost(core, &lost) == FW_OK)
            losses++; /* a host sends what it carried again, or does not */
        if (fw_core_take_probe(core) == FW_OK)
            transmit(core, now);
        while (fw_core_next_send(core, now, &at) == FW_OK && at <= now)
            transmit(core, now);
    }
    fw_decision decision = { .size = sizeof decision };
    check(fw_core_decide(core, &decision), "decide");
    double rate = (double)arrived * PACKET * 8 / SECONDS;
    printf("%s: %.2f of %.2f Mbit/s, %.1f ms in the queue in the mean, %u packets dropped, %u found lost\n",
           options.controller, rate / 1e6, LINK_BPS / 1e6, (double)waited / (double)MS / (sent - dropped), dropped,
           (unsigned)losses);
    printf("now: media at %.2f Mbit/s, %u bytes in flight, round trip %.1f ms\n", (double)decision.media_bps / 1e6,
           (unsigned)decision.in_flight_bytes, (double)decision.srtt_ns / (double)MS);
    fw_core_free(core);
    fw_half_free(half);
    return rate > LINK_BPS / 2 && losses <= dropped ? 0 : 1;
}
