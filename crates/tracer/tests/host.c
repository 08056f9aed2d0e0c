/* A process with the tracer inside: loads it as the driver would, runs kernels of the
 * scripted CUPTI, and ends: by returning from main, or killed once the trace has a kernel.
 * usage: host TRACER CUPTI|- KERNELS return|kill */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has_kernel(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    return strstr(text, "\"ev\":\"kernel\"") != 0;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    void *tracer = dlopen(argv[1], RTLD_NOW);
    int (*begin)(void) = tracer ? (int (*)(void))dlsym(tracer, "InitializeInjection") : 0;
    if (!begin) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    printf("%d %d\n", begin(), begin());
    fflush(stdout);
    void *cupti = strcmp(argv[2], "-") ? dlopen(argv[2], RTLD_NOW) : 0;
    void (*run)(int) = cupti ? (void (*)(int))dlsym(cupti, "fake_run") : 0;
    if (run)
        run(atoi(argv[3]));
    if (!strcmp(argv[4], "kill")) {
        const char *trace = getenv("BENCH_KERNEL_TRACE");
        for (int i = 0; i < 3000 && !has_kernel(trace); i++)
            usleep(10000);
        raise(SIGKILL);
    }
    return 0;
}
