/* What the CUDA driver does for the tracer, in a process without a GPU: preloaded, it loads
 * the injected library and then has the scripted CUPTI run a kernel now and then. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void (*run)(int);

static void *work(void *unused) {
    (void)unused;
    for (;;) {
        run(1);
        usleep(300);
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *injected = getenv("CUDA_INJECTION64_PATH");
    void *tracer = injected ? dlopen(injected, RTLD_NOW) : 0;
    int (*initialize)(void) = tracer ? (int (*)(void))dlsym(tracer, "InitializeInjection") : 0;
    if (!initialize || initialize() != 1)
        return;
    void *cupti = dlopen(getenv("BENCH_CUPTI_LIBRARY"), RTLD_NOW);
    run = cupti ? (void (*)(int))dlsym(cupti, "fake_run") : 0;
    pthread_t thread;
    if (run)
        pthread_create(&thread, 0, work, 0);
}
