/* A sender and a receiver over UDP, on the real clock: the loop to copy into a host. Each end is a thread with a socket
 * and a poll loop of its own, and shares nothing with the other one; here both are in one program, on the loopback
 * interface, for two seconds of a synthetic coder's frames at 60 a second.
 *
 *     cc -std=c11 -pthread -I crates/capi/include crates/capi/examples/udp.c -L target/release -lframewire_c -o udp
 *
 * For POSIX. On Windows the same loop has WSAPoll, ioctlsocket(FIONBIO) and QueryPerformanceCounter.
 * UDP is not encrypted: docs/embedding-c.md says what to run this inside of.
 */
#define _GNU_SOURCE /* ppoll, which waits to the nanosecond: packets are paced closer together than a millisecond */
#include "framewire.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define FRAMES 120
#define INTERVAL (SECOND / 60)
#define AT_MOST (10 * SECOND) /* an end gives up then, whatever the other one does */
#define BATCH 64              /* datagrams read before something else has its turn */

static void fail(const char *call, const char *why)
{
    fprintf(stderr, "%s: %s\n", call, why);
    exit(1);
}

static void check(fw_result result, const char *call)
{
    if (result < 0)
        fail(call, fw_last_error());
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* Sleeps until a datagram is there or it is `at`, whichever is first. */
static void wait_until(int socket, int64_t at)
{
    struct pollfd datagram = { .fd = socket, .events = POLLIN };
    int64_t left = at - now_ns();
    if (left < 0)
        left = 0;
#ifdef __APPLE__
    poll(&datagram, 1, (int)((left + MS - 1) / MS));
#else
    struct timespec timeout = { .tv_sec = left / SECOND, .tv_nsec = left % SECOND };
    ppoll(&datagram, 1, &timeout, NULL);
#endif
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A datagram that the socket does not take is as good as lost, which the library repairs: its buffer is full (EAGAIN),
 * or there is no one at the other end yet (ECONNREFUSED). */
static void send_datagram(int socket, const uint8_t *bytes, size_t length)
{
    (void)!send(socket, bytes, length, MSG_DONTWAIT);
}

/* The sender's end */

struct sending {
    int socket;
    unsigned captured;
    fw_sender_stats stats;
};

/* A frame of this synthetic coder: its number, then bytes that follow from it. */
static void fill(uint8_t *bytes, size_t length, uint32_t frame)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i < 4 ? frame >> (8 * i) : frame * 31 + i);
}

/* Codes what is to be coded. A hardware encoder gets each plan here and its frame comes back later: hand it over then,
 * on this thread, under the number of the plan. */
static void code(fw_sender *sender)
{
    fw_plan plan = { .size = sizeof plan };
    while (fw_sender_next_frame(sender, &plan) == FW_OK) {
        uint64_t size = plan.budget_bytes * (plan.key ? 2 : 1);
        size_t length = (size_t)(size < plan.largest_bytes ? size : plan.largest_bytes);
        length = length < 4 ? 4 : length;
        uint8_t *bytes = malloc(length);
        if (bytes == NULL)
            fail("malloc", "no memory");
        fill(bytes, length, plan.frame);
        fw_coded coded = { .size = sizeof coded, .frame = plan.frame, .key = plan.key };
        coded.data = bytes;
        coded.length = length;
        check(fw_sender_frame(sender, now_ns(), &coded), "frame");
        free(bytes); /* the sender has its own copy */
    }
}

static void *send_video(void *argument)
{
    struct sending *sending = argument;
    fw_sender_options options = { .size = sizeof options, .interval_ns = INTERVAL, .most_bps = 8000000 };
    fw_sender *sender;
    uint8_t datagram[FW_MAX_DATAGRAM];
    size_t length;
    check(fw_sender_new(&options, &sender), "sender");

    int64_t until = now_ns() + AT_MOST, next_picture = now_ns();
    sending->stats.size = sizeof sending->stats;
    for (;;) {
        /* In: what came, each with a time of its own, for controllers live on these times. */
        for (int read = 0; read < BATCH; read++) {
            ssize_t came = recv(sending->socket, datagram, sizeof datagram, MSG_DONTWAIT);
            if (came < 0)
                break;
            check(fw_sender_receive(sender, now_ns(), datagram, (size_t)came), "receive");
        }
        check(fw_sender_wake(sender, now_ns()), "wake");
        if (sending->captured < FRAMES && now_ns() >= next_picture) {
            check(fw_sender_capture(sender, now_ns(), now_ns(), NULL), "capture");
            sending->captured++;
            next_picture += INTERVAL;
        }
        code(sender);
        if (sending->captured == FRAMES)
            check(fw_sender_end(sender), "end");

        /* Out: until nothing may leave. */
        while (fw_sender_transmit(sender, now_ns(), datagram, sizeof datagram, &length) == FW_OK)
            send_datagram(sending->socket, datagram, length);

        check(fw_sender_get_stats(sender, &sending->stats), "stats");
        if (sending->stats.finished || now_ns() >= until)
            break;
        int64_t at = until;
        check(fw_sender_next_wake(sender, &at), "next_wake"); /* FW_NONE leaves `at` alone */
        at = earlier(at, sending->captured < FRAMES ? next_picture : until);
        wait_until(sending->socket, at);
    }
    fw_sender_free(sender);
    return NULL;
}

/* The receiver's end */

struct receiving {
    int socket;
    unsigned good;
    int64_t delays[FRAMES];
    fw_receiver_stats stats;
};

/* Takes what is to be decoded. A hardware decoder gets it here; its pictures are shown as they come, or when
 * fw_receiver_next_shown says so. */
static void decode(fw_receiver *receiver, struct receiving *receiving)
{
    static uint8_t expected[1 << 20];
    fw_frame frame = { .size = sizeof frame };
    while (fw_receiver_next_frame(receiver, now_ns(), &frame) == FW_OK) {
        bool fits = frame.length <= sizeof expected && receiving->good < FRAMES;
        if (fits)
            fill(expected, frame.length, frame.frame);
        if (fits && memcmp(frame.data, expected, frame.length) == 0)
            /* One clock for both ends here; on two machines only differences of this mean something. */
            receiving->delays[receiving->good++] = now_ns() - frame.captured_ns;
        else
            check(fw_receiver_decoder_failed(receiver), "decoder_failed");
    }
}

static void *receive_video(void *argument)
{
    struct receiving *receiving = argument;
    fw_receiver_options options = { .size = sizeof options };
    fw_receiver *receiver;
    uint8_t datagram[FW_MAX_DATAGRAM];
    size_t length;
    check(fw_receiver_new(&options, &receiver), "receiver");

    int64_t until = now_ns() + AT_MOST;
    receiving->stats.size = sizeof receiving->stats;
    for (;;) {
        for (int read = 0; read < BATCH; read++) {
            ssize_t came = recv(receiving->socket, datagram, sizeof datagram, MSG_DONTWAIT);
            if (came < 0)
                break;
            check(fw_receiver_receive(receiver, now_ns(), datagram, (size_t)came), "receive");
        }
        check(fw_receiver_wake(receiver, now_ns()), "wake");
        check(fw_receiver_check(receiver), "check"); /* the sender's controller may be one that this library lacks */
        decode(receiver, receiving);
        while (fw_receiver_transmit(receiver, now_ns(), datagram, sizeof datagram, &length) == FW_OK)
            send_datagram(receiving->socket, datagram, length);

        /* Finished: the sender said so, as it does three times once all has been acknowledged. */
        check(fw_receiver_get_stats(receiver, &receiving->stats), "stats");
        if (receiving->stats.finished || now_ns() >= until)
            break;
        int64_t at = until;
        check(fw_receiver_next_wake(receiver, &at), "next_wake");
        wait_until(receiving->socket, earlier(at, until));
    }
    fw_receiver_free(receiver);
    return NULL;
}

/* Both in one program */

/* A socket on the loopback interface, at a port that is free. */
static int bound(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, size) != 0
        || getsockname(fd, (struct sockaddr *)address, &size) != 0)
        fail("socket", "the loopback interface can't be used");
    return fd;
}

/* From here on the socket takes datagrams of that peer alone. */
static void connected(int fd, const struct sockaddr_in *peer)
{
    if (connect(fd, (const struct sockaddr *)peer, sizeof *peer) != 0)
        fail("connect", "the loopback interface can't be used");
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static struct sending sending;
static struct receiving receiving;

int main(void)
{
    if (fw_abi_version() != FW_ABI_VERSION)
        fail("framewire", "the library is not the one that this was compiled with");
    struct sockaddr_in here, there;
    sending.socket = bound(&here);
    receiving.socket = bound(&there);
    connected(sending.socket, &there);
    connected(receiving.socket, &here);

    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, receive_video, &receiving) != 0
        || pthread_create(&threads[1], NULL, send_video, &sending) != 0)
        fail("pthread_create", "no thread to be had");
    pthread_join(threads[1], NULL);
    pthread_join(threads[0], NULL);
    close(sending.socket);
    close(receiving.socket);

    unsigned good = receiving.good;
    qsort(receiving.delays, good, sizeof receiving.delays[0], by_size);
    double p50 = good ? (double)receiving.delays[good / 2] / (double)MS : 0;
    double p95 = good ? (double)receiving.delays[good * 95 / 100] / (double)MS : 0;
    printf("framewire %s: %u frames captured, %u coded, %u arrived as they were sent\n", fw_version(), sending.captured,
           (unsigned)sending.stats.encoded, good);
    printf("%.2f Mbit/s over UDP; %u packets, %u lost; round trip %.2f ms\n",
           (double)sending.stats.bytes * 8 / ((double)FRAMES / 60) / 1e6, (unsigned)sending.stats.packets,
           (unsigned)sending.stats.lost, (double)sending.stats.srtt_ns / (double)MS);
    printf("capture to decoder %.2f ms in the median, %.2f ms at the 95th percentile\n", p50, p95);

    /* A machine that is busy with other work wakes threads late, so that frames are left out: half of them must do. */
    bool fine = good >= FRAMES / 2 && p50 < 100 && receiving.stats.decode_errors == 0;
    fine = fine && sending.stats.finished && receiving.stats.finished;
    if (!fine)
        fprintf(stderr, "expected: half of the frames, in less than 100 ms, and an end that both threads know of\n");
    return fine ? 0 : 1;
}
