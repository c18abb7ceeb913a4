// blocks SIZE COUNT KEPT: takes COUNT blocks of SIZE bytes. The last KEPT of them are live at a time; the rest is freed.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t size = atoll(argv[1]), count = atoll(argv[2]), kept = atoll(argv[3]);
    void *volatile *slots = calloc(kept, sizeof *slots);
    for (size_t i = 0; i < count; i++) {
        free(slots[i % kept]);
        slots[i % kept] = malloc(size);
        if (!slots[i % kept]) abort();
    }
    puts("done");
    return argc == 4 ? 5 : 1;
}
