# SPDX-License-Identifier: Apache-2.0
# Switching between fibers on x86-64 (System V ABI). Only the registers that a call preserves are kept: device code
# never changes the rounding mode, so the control words of SSE and x87 stay as they are, which makes a switch about
# three times cheaper.
#if !defined(__x86_64__)
#error "hostcuda runs on x86-64 only"
#endif

        .text

# void hostcuda_switch(void** save, void* load): stores the stack pointer of the caller in *save and goes on where the
# fiber that stopped at `load` left off.
        .globl  hostcuda_switch
        .hidden hostcuda_switch
        .type   hostcuda_switch, @function
        .p2align 4
hostcuda_switch:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
# The fault handler jumps here, with the stack pointer already loaded.
        .globl  hostcuda_switch_restore
        .hidden hostcuda_switch_restore
hostcuda_switch_restore:
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .size   hostcuda_switch, .-hostcuda_switch

# First instruction of every fiber. It never returns; a zero return address ends stack walks of debuggers.
        .globl  hostcuda_fiber_start
        .hidden hostcuda_fiber_start
        .type   hostcuda_fiber_start, @function
        .p2align 4
hostcuda_fiber_start:
        .cfi_startproc
        .cfi_undefined %rip
        xorl    %ebp, %ebp
        call    hostcuda_fiber_main
        ud2
        .cfi_endproc
        .size   hostcuda_fiber_start, .-hostcuda_fiber_start

        .section .note.GNU-stack, "", @progbits
