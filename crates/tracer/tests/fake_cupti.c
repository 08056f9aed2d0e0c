/* A scripted CUPTI: the functions that the tracer uses, and "kernels" that a test
 * launches by calling fake_run. The variable FAKE_CUPTI makes one of them fail. Its clock
 * is CLOCK_MONOTONIC plus seven seconds, unless it takes the tracer's; compiled with
 * -DOLD it can't. It knows nothing of the tracer's declarations: its record is made of
 * the offsets in NVIDIA's header, which tests/layout.rs holds the tracer to as well. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORD_BYTES 208 /* sizeof(CUpti_ActivityKernel9) */
#define SKEW_NS 7000000000ull

typedef uint64_t (*timestamp_fn)(void);
typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static timestamp_fn timestamp;
static request_fn request;
static complete_fn complete;
static uint8_t *pending;
static size_t pending_count;
static int enabled;

static unsigned scripted(const char *what, unsigned otherwise) {
    const char *script = getenv("FAKE_CUPTI");
    size_t length = strlen(what);
    if (!script || strncmp(script, what, length) || script[length] != '=')
        return otherwise;
    return (unsigned)atoi(script + length + 1);
}

static uint64_t now(void) {
    struct timespec time;
    if (timestamp)
        return timestamp();
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec + SKEW_NS;
}

uint32_t cuptiGetVersion(uint32_t *version) {
    *version = scripted("version", 26);
    return 0;
}
uint32_t cuptiGetResultString(uint32_t status, const char **text) {
    static char words[40];
    snprintf(words, sizeof words, "FAKE_ERROR_%u", status);
    *text = words;
    return 0;
}
uint32_t cuptiGetTimestamp(uint64_t *time_ns) {
    *time_ns = now();
    return scripted("timestamp", 0);
}
#ifndef OLD
uint32_t cuptiActivityRegisterTimestampCallback(timestamp_fn function) {
    timestamp = function;
    return 0;
}
#endif
uint32_t cuptiActivityRegisterCallbacks(request_fn requested, complete_fn completed) {
    request = requested;
    complete = completed;
    return scripted("register", 0);
}
uint32_t cuptiActivityEnable(uint32_t kind) {
    enabled = kind == 10;
    return scripted("enable", 0);
}
uint32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + RECORD_BYTES : buffer;
    if (next + RECORD_BYTES > buffer + valid)
        return 12; /* CUPTI_ERROR_MAX_LIMIT_REACHED */
    *record = next;
    return 0;
}
uint32_t cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    (void)context, (void)stream;
    *dropped = scripted("dropped", 0);
    return 0;
}
uint32_t cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    pthread_mutex_lock(&lock);
    size_t sent = 0;
    while (sent < pending_count) {
        uint8_t *buffer = 0;
        size_t size = 0, most = 0;
        request(&buffer, &size, &most);
        size_t count = size / RECORD_BYTES;
        if (count > pending_count - sent)
            count = pending_count - sent;
        if (!buffer || !count)
            break;
        memcpy(buffer, pending + sent * RECORD_BYTES, count * RECORD_BYTES);
        sent += count;
        complete(0, 0, buffer, size, count * RECORD_BYTES);
    }
    pending_count = 0;
    pthread_mutex_unlock(&lock);
    return scripted("flush", 0);
}

/* Run kernels, one after the other, a microsecond each. */
void fake_run(int count) {
    static const char *const names[] = {"fake_gemm", "fake_flash_fwd"};
    if (!enabled)
        return;
    pthread_mutex_lock(&lock);
    pending = realloc(pending, (pending_count + (size_t)count) * RECORD_BYTES);
    for (int i = 0; i < count; i++) {
        uint8_t *record = pending + pending_count++ * RECORD_BYTES;
        uint32_t kind = 10, device = 1, stream = 7;
        int32_t grid[3] = {i, 2, 3}, block[3] = {128, 1, 1};
        uint64_t start = now(), end = start + 1000, node = 42;
        const char *name = names[i % 2];
        if (scripted("untimed", 0) && i == 0)
            start = end = 0;
        memset(record, 0xEE, RECORD_BYTES);
        memcpy(record + 0, &kind, 4);
        memcpy(record + 16, &start, 8);
        memcpy(record + 24, &end, 8);
        memcpy(record + 40, &device, 4);
        memcpy(record + 48, &stream, 4);
        memcpy(record + 52, grid, 12);
        memcpy(record + 64, block, 12);
        memcpy(record + 104, &name, 8);
        memcpy(record + 144, &node, 8);
    }
    pthread_mutex_unlock(&lock);
}
