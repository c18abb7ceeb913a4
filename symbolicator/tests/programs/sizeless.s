# Names without sizes, as nasm writes them, and code without names between them.
    .text
    .globl tiny_exported, with_branches, by_table, at_the_end
    .type tiny_exported, @function
    .type with_branches, @function
    .type by_table, @function
    .type at_the_end, @function
tiny_exported:
    mov $1, %eax
    ret
    .rept 10000                 # 60,000 bytes of other functions
    mov $2, %eax
    ret
    .endr
local_loop:
    dec %edi
    jne local_loop
    ret
    .balign 16, 0x90
with_branches:
    test %edi, %edi
    je 1f
    .fill 5000, 1, 0x90
    ret
1:  dec %edi
    jne 1b
    jmp 2f
    ud2
2:  ret
behind_branches:
    mov $3, %eax
    ret
by_table:
    jmp *%rax
    .rept 300
    mov $4, %eax
    ret
    .endr
at_the_end:
    mov $5, %eax
    ret
    .type after, @function
    .cfi_startproc
after:
    mov $6, %eax
    ret
    .size after, 6
    .cfi_endproc
    .section .note.GNU-stack, "", @progbits
