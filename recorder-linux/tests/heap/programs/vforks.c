// Its first blocks are those of children of vfork(2). Prints its number by write(2), which takes no block.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

char *volatile block;

static void in_child(void) {
    pid_t child = vfork();
    if (!child) {
        block = malloc(5000);
        free(block);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    in_child();
    in_child();
    char *kept = malloc(6000);
    in_child();
    block = kept;
    char digits[12];
    int at = sizeof digits;
    for (pid_t pid = getpid(); pid; pid /= 10)
        digits[--at] = '0' + pid % 10;
    return write(1, digits + at, sizeof digits - at) < 0;
}
