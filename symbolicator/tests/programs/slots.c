// Relocations that fill no slot of the global offset table: a copied variable, and the address of a function in data.
extern void *stderr;
void *malloc(unsigned long size);

void *table[] = {malloc};
void *volatile a_copy;
void **volatile a_table;

__attribute__((noinline)) void data(void) {
    a_copy = stderr;
    a_table = table;
}

int main(void) {
    data();
    return 0;
}
