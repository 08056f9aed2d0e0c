/* CUDA's driver and cuBLAS on a scripted card, for machines without any: as much of both as
 * `gpu-limits` calls. Nothing is computed. A clock of the card's own goes on by what a copy or a product
 * would take at the rates below, and events read it. Products named in CUDA_LACKS (`int8`) are refused. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES_PER_S 3.2e12
#define L2_BYTES (50 << 20)
/* Compute types of cuBLAS, and multiply-adds per second, counted as two. */
enum { COMPUTE_32F = 68, COMPUTE_32I = 72, COMPUTE_TF32 = 77 };
enum { R_32F = 0 };
#define F32 6.0e13
#define TF32 4.0e14
#define HALF 8.0e14
#define INT8 1.6e15

enum { OK = 0, L2_CACHE_SIZE = 38, NOT_SUPPORTED = 15 };

static double clock_s;

int cuInit(unsigned flags) { return OK; }
int cuGetErrorString(int error, const char **text) { *text = "scripted"; return OK; }
int cuGetErrorName(int error, const char **text) { *text = "SCRIPTED"; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    /* Pools of memory among them, which it has none of. */
    *value = attribute == L2_CACHE_SIZE ? L2_BYTES : 0;
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &clock_s; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { return OK; }
int cuCtxGetCurrent(void **context) { *context = &clock_s; return OK; }
int cuCtxSetCurrent(void *context) { return OK; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)80 << 30; return OK; }
int cuMemAlloc_v2(unsigned long long *at, size_t bytes) { *at = 4096; return OK; }
int cuMemFree_v2(unsigned long long at) { return OK; }
int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t count, void *stream) { return OK; }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) { return OK; }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
    clock_s += 2.0 * bytes / MEMORY_BYTES_PER_S;
    return OK;
}
int cuStreamSynchronize(void *stream) { return OK; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return OK; }
int cuEventCreate(double **event, unsigned flags) { *event = calloc(1, sizeof **event); return OK; }
int cuEventDestroy_v2(double *event) { free(event); return OK; }
int cuEventRecord(double *event, void *stream) { *event = clock_s; return OK; }
int cuEventSynchronize(double *event) { return OK; }
int cuEventElapsedTime_v2(float *milliseconds, const double *start, const double *end) {
    *milliseconds = (float)((*end - *start) * 1e3);
    return OK;
}

int cublasCreate_v2(void **handle) { *handle = &clock_s; return OK; }
int cublasDestroy_v2(void *handle) { return OK; }
int cublasSetStream_v2(void *handle, void *stream) { return OK; }
int cublasGemmEx(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                 const void *a, int of_a, int rows_a, const void *b, int of_b, int rows_b, const void *beta,
                 void *c, int of_c, int rows_c, int within, int algorithm) {
    double rate;
    switch (within) {
    case COMPUTE_32F: rate = of_a == R_32F ? F32 : HALF; break;
    case COMPUTE_TF32: rate = TF32; break;
    case COMPUTE_32I: rate = INT8; break;
    default: return NOT_SUPPORTED;
    }
    const char *lacks = getenv("CUDA_LACKS");
    if (within == COMPUTE_32I && lacks && strstr(lacks, "int8"))
        return NOT_SUPPORTED;
    clock_s += 2.0 * m * n * k / rate;
    return OK;
}
