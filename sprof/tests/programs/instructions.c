/* Does what its words say, in order:
 *   run N         a loop of N times two instructions, in a function of its own
 *   recurse N     the same, N calls deep, one round each
 *   say TEXT      to stdout and to stderr
 *   fork          a child does the words up to `parent`; then the parent goes on
 *   parent        waits for the child
 *   kill-child    kills the child first, once it hangs
 *   hang          waits for a signal
 *   spawn FILE    starts a program, if there is one
 *   exec          becomes itself, with the other words
 *   signal N, exit N
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((noinline)) void counted(long rounds) {
#if defined(__x86_64__)
    __asm__ volatile("nop\n1: dec %0\njnz 1b" : "+r"(rounds) : : "cc");
#elif defined(__aarch64__)
    __asm__ volatile("nop\n1: subs %0, %0, #1\nb.ne 1b" : "+r"(rounds) : : "cc");
#endif
}

__attribute__((noinline)) void recursive(long depth) {
    counted(1);
    if (depth > 1)
        recursive(depth - 1);
    __asm__ volatile("");
}

int main(int count, char **words) {
    pid_t child = 0, spawned;
    int ready[2] = {-1, -1};
    for (int at = 1; at < count; at++) {
        const char *word = words[at];
        const char *next = at + 1 < count ? words[at + 1] : "";
        if (!strcmp(word, "run")) {
            counted(atol(next));
        } else if (!strcmp(word, "recurse")) {
            recursive(atol(next));
        } else if (!strcmp(word, "say")) {
            dprintf(1, "%s\n", next);
            dprintf(2, "%s\n", next);
        } else if (!strcmp(word, "fork")) {
            pipe(ready);
            child = fork();
            if (child) {
                while (strcmp(words[at + 1], "parent") && strcmp(words[at + 1], "kill-child"))
                    at++;
            }
        } else if (!strcmp(word, "parent") || !strcmp(word, "kill-child")) {
            if (!child)
                _exit(0);
            if (!strcmp(word, "kill-child")) {
                char is_there;
                read(ready[0], &is_there, 1);
                kill(child, SIGKILL);
            }
            waitpid(child, 0, 0);
        } else if (!strcmp(word, "hang")) {
            write(ready[1], "", 1);
            pause();
        } else if (!strcmp(word, "spawn")) {
            char *words_of_it[] = {(char *)next, 0};
            posix_spawn(&spawned, next, 0, 0, words_of_it, environ);
        } else if (!strcmp(word, "exec")) {
            words[at] = words[0];
            execv(words[0], words + at);
        } else if (!strcmp(word, "signal")) {
            kill(getpid(), atoi(next));
        } else if (!strcmp(word, "exit")) {
            exit(atoi(next));
        }
    }
    return 0;
}
