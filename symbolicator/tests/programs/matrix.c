// Inlined calls over several levels, a loop that is unrolled, a cold part, copies of functions for constants. Nothing here is timed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *left, *right;
    int key, count;
};

static struct node *new_node(int key) {
    struct node *node = calloc(1, sizeof *node);
    if (!node) {
        fprintf(stderr, "no memory for %d\n", key);
        abort();
    }
    node->key = key;
    return node;
}

static inline int mix(int x) { return (x ^ (x >> 3)) * 2654435761u >> 5; }

static inline int twice(int x) { return mix(mix(x) + 1); }

static void insert(struct node **at, int key) {
    while (*at) {
        if ((*at)->key == key) {
            (*at)->count++;
            return;
        }
        at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    }
    *at = new_node(key);
}

static int depth(const struct node *node) {
    if (!node) return 0;
    int left = depth(node->left), right = depth(node->right);
    return 1 + (left > right ? left : right);
}

__attribute__((noinline)) static int scale(int x, int by) {
    int sum = 0;
    for (int i = 0; i < 64; i++) sum += twice(x + i) / by;
    return sum;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv) {
    struct node *root = NULL;
    int keys[256];
    for (int i = 0; i < 256; i++) keys[i] = twice(i * argc);
    qsort(keys, 256, sizeof *keys, compare);
    for (int i = 0; i < 256; i++) insert(&root, keys[i]);
    printf("%d %d %zu\n", depth(root), scale(argc, 3) + scale(argc, 3), strlen(argv[0]));
    return 0;
}
