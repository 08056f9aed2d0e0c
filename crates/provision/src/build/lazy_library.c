/* A shared library of NVIDIA's as a static one that looks for it when it is first called.
 *
 * What links against libcuda.so or libcublas.so needs them to start at all. What links
 * against this starts anywhere, and learns at its first call whether they are there.
 * Each function of functions.h (made from the library's header, a line each: F(index, name)
 * returns a status, T(index, name) a text) is a jump through a table that is filled on
 * demand. The compiler is told LIBRARY, which file to open, and the statuses ABSENT (there
 * is no such library) and UNKNOWN (it has no such function). x86-64 Linux; none of these
 * functions is variadic or takes more than registers and the caller's own stack hold. */

#include <dlfcn.h>
#include <stddef.h>

static int absent(void) { return ABSENT; }
static int unknown(void) { return UNKNOWN; }
static const char *no_text(void) { return LIBRARY " can't be opened"; }

#define F(index, name) {#name, (void *)absent, (void *)unknown},
#define T(index, name) {#name, (void *)no_text, (void *)no_text},
static const struct {
    const char *name;
    void *without_library, *without_function;
} functions[] = {
#include "functions.h"
};
#undef F
#undef T

__attribute__((used)) static void *table[sizeof functions / sizeof *functions];

/* Called with every argument register saved, by the code below. */
__attribute__((used)) static void *resolve(size_t index) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL); /* counted: the same each time */
    void *function = library ? dlsym(library, functions[index].name) : NULL;
    if (!function) {
        function = library ? functions[index].without_function : functions[index].without_library;
    }
    table[index] = function;
    return function;
}

__asm__(".text\n"
        "enter:\n"
        "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
        "  subq $136, %rsp\n" /* eight vector registers, and the stack aligned to 16 */
        "  movdqu %xmm0, (%rsp)\n  movdqu %xmm1, 16(%rsp)\n"
        "  movdqu %xmm2, 32(%rsp)\n  movdqu %xmm3, 48(%rsp)\n"
        "  movdqu %xmm4, 64(%rsp)\n  movdqu %xmm5, 80(%rsp)\n"
        "  movdqu %xmm6, 96(%rsp)\n  movdqu %xmm7, 112(%rsp)\n"
        "  movq %r11, %rdi\n"
        "  call resolve\n"
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
            "  movq table+8*" #index "(%rip), %r11\n"            \
            "  testq %r11, %r11\n"                               \
            "  jz 1f\n"                                          \
            "  jmp *%r11\n"                                      \
            "1: movl $" #index ", %r11d\n"                       \
            "  jmp enter\n");
#define T F
#include "functions.h"
