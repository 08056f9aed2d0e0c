/* NVIDIA's driver as a static library that is looked for when it is first called.
 *
 * What links against libcuda.so needs the driver to start at all. What links against
 * this starts anywhere, and learns at its first call whether there is a driver.
 * Each function of functions.h (one F(index, name) a line, made from cuda.h) is a jump
 * through a table that is filled on demand. x86-64 Linux; no function of cuda.h is
 * variadic or takes more than registers and the caller's own stack hold. */

#include <dlfcn.h>
#include <stddef.h>

enum { NO_DEVICE = 100, NOT_FOUND = 500 }; /* CUresult, of cuda.h */

#define F(index, name) #name,
static const char *const names[] = {
#include "functions.h"
};
#undef F

__attribute__((visibility("hidden"))) void *bench_cuda_table[sizeof names / sizeof *names];

static int no_device(void) { return NO_DEVICE; }
static int not_found(void) { return NOT_FOUND; }

/* Called with every argument register saved, by the code below. */
__attribute__((visibility("hidden"))) void *bench_cuda_resolve(size_t index) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); /* counted: the same each time */
    void *function = driver ? dlsym(driver, names[index]) : NULL;
    if (!function) {
        function = driver ? (void *)not_found : (void *)no_device;
    }
    bench_cuda_table[index] = function;
    return function;
}

__asm__(".text\n"
        ".hidden bench_cuda_enter\n"
        "bench_cuda_enter:\n"
        "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
        "  subq $136, %rsp\n" /* eight vector registers, and the stack aligned to 16 */
        "  movdqu %xmm0, (%rsp)\n  movdqu %xmm1, 16(%rsp)\n"
        "  movdqu %xmm2, 32(%rsp)\n  movdqu %xmm3, 48(%rsp)\n"
        "  movdqu %xmm4, 64(%rsp)\n  movdqu %xmm5, 80(%rsp)\n"
        "  movdqu %xmm6, 96(%rsp)\n  movdqu %xmm7, 112(%rsp)\n"
        "  movq %r11, %rdi\n"
        "  call bench_cuda_resolve\n"
        "  movq %rax, %r11\n"
        "  movdqu (%rsp), %xmm0\n  movdqu 16(%rsp), %xmm1\n"
        "  movdqu 32(%rsp), %xmm2\n  movdqu 48(%rsp), %xmm3\n"
        "  movdqu 64(%rsp), %xmm4\n  movdqu 80(%rsp), %xmm5\n"
        "  movdqu 96(%rsp), %xmm6\n  movdqu 112(%rsp), %xmm7\n"
        "  addq $136, %rsp\n"
        "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
        "  jmp *%r11\n");

#define F(index, name)                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" \
            #name ":\n"                                          \
            "  movq bench_cuda_table+8*" #index "(%rip), %r11\n" \
            "  testq %r11, %r11\n"                               \
            "  jz 1f\n"                                          \
            "  jmp *%r11\n"                                      \
            "1: movl $" #index ", %r11d\n"                       \
            "  jmp bench_cuda_enter\n");
#include "functions.h"
