/* What NVIDIA's management library answers of one scripted card, for machines without any. The
 * processes on the card are the children of the process that asks. Counters named in NVML_LACKS
 * (`power energy gpm …`) are refused, as a card does that has none. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
#define GIB (1ULL << 30)
#define CARD_BYTES (80 * GIB)
#define PROCESS_BYTES (3 * GIB)
#define MILLIWATTS 250000

static int asked(const char *counter) {
    const char *lacks = getenv("NVML_LACKS");
    return lacks && strstr(lacks, counter) ? NOT_SUPPORTED : OK;
}

static int number(const char *counter, unsigned *to, unsigned value) {
    *to = value;
    return asked(counter);
}

static unsigned children(unsigned *pids, unsigned max) {
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        char path[300], text[512] = {0};
        int parent;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *stat = fopen(path, "r");
        if (!stat)
            continue;
        size_t read = fread(text, 1, sizeof text - 1, stat);
        fclose(stat);
        char *name_end = read ? strrchr(text, ')') : 0;
        if (name_end && sscanf(name_end + 1, " %*c %d", &parent) == 1 && parent == getpid()) {
            if (count < max)
                pids[count] = (unsigned)atoi(entry->d_name);
            count++;
        }
    }
    if (proc)
        closedir(proc);
    return count;
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    snprintf(to, size, "570.00");
    return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *to) {
    *to = 12080;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *to) { return number("device", to, 1); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    static char card;
    *to = &card;
    return index == 0 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetName(void *card, char *to, unsigned size) {
    snprintf(to, size, "Scripted GPU");
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) {
    *major = 9, *minor = 0;
    return OK;
}

struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *card, struct memory *to) {
    unsigned long long used = children(0, 0) * PROCESS_BYTES;
    to->total = CARD_BYTES, to->reserved = 0, to->used = used, to->free = CARD_BYTES - used;
    return asked("memory");
}

int nvmlDeviceGetEnforcedPowerLimit(void *card, unsigned *to) {
    return number("power", to, 700000);
}

int nvmlDeviceGetPowerUsage(void *card, unsigned *to) { return number("power", to, MILLIWATTS); }

int nvmlDeviceGetTotalEnergyConsumption(void *card, unsigned long long *to) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* Millijoules: milliwatts times seconds. */
    *to = (unsigned long long)((now.tv_sec + now.tv_nsec / 1e9) * MILLIWATTS);
    return asked("energy");
}

int nvmlDeviceGetMaxClockInfo(void *card, int kind, unsigned *to) {
    return number("clock", to, 1980);
}

int nvmlDeviceGetClockInfo(void *card, int kind, unsigned *to) {
    return number("clock", to, 1755);
}

int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *to) {
    return number("temperature", to, 61);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *card, unsigned long long *to) {
    *to = 0;
    return asked("throttle");
}

int nvmlDeviceGetTotalEccErrors(void *card, int error, int counter, unsigned long long *to) {
    *to = 0;
    return asked("ecc");
}

struct utilization {
    unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(void *card, struct utilization *to) {
    to->gpu = 87, to->memory = 43;
    return asked("utilization");
}

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned *count, struct process *to) {
    unsigned pids[64], room = to ? *count : 0;
    unsigned found = children(pids, 64);
    found = found > 64 ? 64 : found;
    *count = found;
    if (found > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++) {
        memset(&to[i], 0, sizeof to[i]);
        to[i].pid = pids[i], to[i].used = PROCESS_BYTES;
    }
    return asked("processes");
}

struct support {
    unsigned version, is_supported;
};

int nvmlGpmQueryDeviceSupport(void *card, struct support *to) {
    to->is_supported = asked("gpm") == OK;
    return OK;
}

int nvmlGpmSampleAlloc(void **to) {
    *to = malloc(1);
    return OK;
}

int nvmlGpmSampleFree(void *sample) {
    free(sample);
    return OK;
}

int nvmlGpmSampleGet(void *card, void *sample) { return OK; }

struct gpm {
    unsigned version, count;
    void *before, *now;
    struct {
        unsigned id;
        int status;
        double value;
        const char *short_name, *long_name, *unit;
    } metrics[210];
};

int nvmlGpmMetricsGet(struct gpm *to) {
    for (unsigned i = 0; i < to->count; i++) {
        to->metrics[i].status = OK;
        to->metrics[i].value = 50;
        to->metrics[i].short_name = to->metrics[i].long_name = to->metrics[i].unit = "";
    }
    return OK;
}
