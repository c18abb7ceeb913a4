/* Named sections, instants and counters of a program for the profiler sprof: gcc and clang, C and C++, Linux
 * of 64 bits. Elsewhere all of this compiles, and does nothing.
 *
 *     #include "sprof.h"
 *
 *     size_t parse(const char *text, size_t rows) {
 *         SPROF_SPAN("parse", sprof_u64("rows", rows), sprof_text("text", text)); // to the end of the scope
 *         SPROF_PLOT("rows", rows);
 *         ...
 *     }
 *
 *     SPROF_INSTANT("cache miss", sprof_i64("key", key));
 *     SPROF_FRAME("frame");                           // the time since the program was here before
 *     sprof_span task = SPROF_BEGIN_ASYNC("request"); // it may end on another thread
 *     SPROF_END(&task, sprof_bool("ok", 1));
 *     sprof_span step = SPROF_BEGIN("step");          // it ends on this thread
 *     SPROF_END(&step);
 *     sprof_resume();                                 // `sprof record --paused` samples from here
 *     sprof_pause();                                  // to here, on all threads
 *
 * Names and keys are texts that stay, such as literals; names and texts of fields are cut after 255 and 96 bytes. At
 * most 8 fields. A number of sprof_unique() in `sprof_flow` of several spans connects them; `sprof_flow_end` is for the
 * last one. Where nothing is recorded, all of this costs a nanosecond. Before glibc 2.34, link with -pthread.
 *
 * The memory that it shares with sprof is described in src/format.rs of the crate sprof-spans. License: MIT OR
 * Apache-2.0.
 */
#ifndef SPROF_H
#define SPROF_H

#if defined(__linux__) && defined(__LP64__) && defined(__GNUC__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What of the format is used here: see src/format.rs. */
enum {
    SPROF_STATE_, SPROF_VERSION_, SPROF_PID_, SPROF_SLOTS_, SPROF_SLOTS_TAKEN_, SPROF_TEXTS_TAKEN_, SPROF_LOST_,
    SPROF_READER_SEEN_ = 9, SPROF_SWITCHES_ = 10, SPROF_SWITCH_LOCK_ = 11, SPROF_SOCKET_ = 16, SPROF_SOCKET_BYTES_ = 64,
    SPROF_OFF_ = 0, SPROF_UNSET_ = 1, SPROF_COUNTER_ = 2, SPROF_MONOTONIC_ = 3,
    SPROF_SLOTS_AT_ = 4096, SPROF_SLOT_WORDS_ = 16, SPROF_MOST_SLOTS_ = 1024,
    SPROF_SLOT_STATE_ = 0, SPROF_SLOT_HEAD_ = 1, SPROF_SLOT_TID_ = 2, SPROF_SLOT_LOST_ = 3, SPROF_SLOT_TAIL_ = 8,
    SPROF_SWITCHES_AT_ = 192 << 10, SPROF_MOST_SWITCHES_ = 8 << 10,
    SPROF_TEXTS_AT_ = 256 << 10, SPROF_RINGS_AT_ = 1 << 20, SPROF_CODE_BYTES_ = 64 << 10,
    SPROF_TEXT_BYTES_ = SPROF_RINGS_AT_ - SPROF_TEXTS_AT_ - SPROF_CODE_BYTES_,
    SPROF_RING_WORDS_ = 512 << 10, SPROF_MOST_WORDS_ = 109, SPROF_MOST_FIELDS_ = 8,
    SPROF_KIND_SPAN_ = 1, SPROF_KIND_INSTANT_ = 2, SPROF_KIND_PLOT_ = 3, SPROF_KIND_ASYNC_ = 4
};
#define SPROF_READER_LOST_NS_ 10000000000u

/* One definition for all files of a program. */
#define SPROF_WEAK_ __attribute__((weak))
#define SPROF_COLD_ __attribute__((weak, noinline, cold))

typedef struct {
    const char *key;
    uint64_t type, word;
    const char *text;
} sprof_field;

typedef struct {
    const char *name;
    uint32_t id;
} sprof_site;

typedef struct {
    sprof_site *site;
    uint64_t began, lane;
    const sprof_field *fields;
    size_t count;
} sprof_span;

/* What is of this process alone: the kernel gives a fork zeros in its place. */
struct sprof_own_ {
    uint64_t progress; /* 1: a thread makes the memory, or nobody could; 2: it is there */
    uint64_t *head;
    uint64_t *rings[SPROF_MOST_SLOTS_];
    uint64_t slots; /* how many rings the memory has */
    struct stat file;
    int descriptor;
};

struct sprof_writer_ {
    uint64_t *ring, *slot, *progress, head, limit;
    uint32_t tid, next_unique;
    unsigned char is_writing, has_ended;
};

SPROF_WEAK_ uint64_t sprof_not_set_ = SPROF_UNSET_;
SPROF_WEAK_ uint64_t sprof_given_up_ = SPROF_OFF_;
SPROF_WEAK_ uint64_t *sprof_state_ = &sprof_not_set_;
SPROF_WEAK_ uint64_t *sprof_head_ = NULL; /* also of the parent in a fork */
SPROF_WEAK_ struct sprof_own_ *sprof_own_ = NULL;
SPROF_WEAK_ pthread_key_t sprof_end_of_thread_ = 0;
SPROF_WEAK_ int sprof_has_key_ = 0;
SPROF_WEAK_ uint64_t sprof_early_ = 0;
SPROF_WEAK_ __thread struct sprof_writer_ sprof_writer_ = {0, 0, 0, 0, 0, 0, 0, 0, 0};

#define SPROF_LOAD_(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define SPROF_STORE_(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)
#define SPROF_ADD_(place, value) __atomic_fetch_add(&(place), value, __ATOMIC_RELAXED)

static inline sprof_field sprof_field_(const char *key, uint64_t type, uint64_t word, const char *text) {
    sprof_field field;
    field.key = key, field.type = type, field.word = word, field.text = text;
    return field;
}
static inline sprof_field sprof_i64(const char *key, int64_t value) { return sprof_field_(key, 1, (uint64_t)value, NULL); }
static inline sprof_field sprof_u64(const char *key, uint64_t value) { return sprof_field_(key, 2, value, NULL); }
static inline sprof_field sprof_f64(const char *key, double value) {
    uint64_t word;
    memcpy(&word, &value, 8);
    return sprof_field_(key, 3, word, NULL);
}
static inline sprof_field sprof_bool(const char *key, int value) { return sprof_field_(key, 4, value != 0, NULL); }
static inline sprof_field sprof_flow(uint64_t flow) { return sprof_field_("flow", flow ? 5 : 0, flow, NULL); }
static inline sprof_field sprof_flow_end(uint64_t flow) { return sprof_field_("flow", flow ? 6 : 0, flow, NULL); }
static inline sprof_field sprof_text(const char *key, const char *text) {
    return sprof_field_(key, text ? 7 : 0, text ? strlen(text) : 0, text);
}

static inline uint64_t sprof_monotonic_(void) {
    struct timespec time = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t sprof_counter_(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return sprof_monotonic_();
#endif
}

/* Sends the memory to the sprof that named this socket. */
static inline int sprof_send_(const char *name, size_t length, int descriptor) {
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name, length);
    int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), sent = 0;
    if (stream < 0) return 0;
    struct { int pid; unsigned user, group; } peer = {0, 0, 0};
    socklen_t bytes = sizeof peer;
    if (connect(stream, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0
        && getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && (peer.user == 0 || peer.user == geteuid())) {
        char words[64] = "sprofsp\x01";
        union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; } control;
        struct iovec slice = {words, sizeof words};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        memset(&control, 0, sizeof control);
        message.msg_iov = &slice, message.msg_iovlen = 1;
        message.msg_control = &control, message.msg_controllen = sizeof control;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
        sent = sendmsg(stream, &message, MSG_NOSIGNAL) == (ssize_t)sizeof words;
    }
    close(stream);
    return sent;
}

static inline int sprof_memory_(uint64_t bytes) {
    /* MFD_CLOEXEC, MFD_ALLOW_SEALING, and MFD_NOEXEC_SEAL, which kernels before 6.3 refuse. */
    int made = (int)syscall(SYS_memfd_create, "sprof-spans", 1 | 2 | 8);
    if (made < 0) made = (int)syscall(SYS_memfd_create, "sprof-spans", 1 | 2);
    if (made < 0) return -1;
    /* Programs may use many descriptors by number, from the lowest on. */
    int moved = fcntl(made, F_DUPFD_CLOEXEC, 100);
    if (moved >= 0) close(made), made = moved;
    /* F_ADD_SEALS: F_SEAL_SHRINK and F_SEAL_GROW. */
    return ftruncate(made, (off_t)bytes) == 0 && fcntl(made, 1033, 2 | 4) == 0 ? made : -1;
}

SPROF_COLD_ void sprof_thread_ends_(void *unused) {
    struct sprof_writer_ *writer = &sprof_writer_;
    (void)unused;
    writer->has_ended = 1;
    /* In a fork, the slot is the parent's. */
    if (writer->slot && SPROF_LOAD_(*writer->progress) == 2) {
        __atomic_store_n(&writer->slot[SPROF_SLOT_STATE_], 2u, __ATOMIC_RELEASE);
    }
    writer->slot = NULL;
}

/* Counts early spans as lost, once there is memory: whoever comes second of a thread that adds one and the thread that
 * makes the memory. */
SPROF_COLD_ void sprof_count_early_(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t *head = SPROF_LOAD_(sprof_head_);
    if (head) SPROF_ADD_(head[SPROF_LOST_], __atomic_exchange_n(&sprof_early_, 0, __ATOMIC_RELAXED));
}

SPROF_COLD_ int sprof_make_(struct sprof_own_ *own) {
    uint64_t *parent = __atomic_load_n(&sprof_head_, __ATOMIC_ACQUIRE), state = SPROF_OFF_, length = 0, slots;
    char name[SPROF_SOCKET_BYTES_] = {0};
    if (parent) {
        state = SPROF_LOAD_(parent[SPROF_STATE_]), length = SPROF_LOAD_(parent[SPROF_SOCKET_]);
        if (length > sizeof name) return 0;
        memcpy(name, parent + SPROF_SOCKET_ + 1, length);
    } else {
        const char *settings = getenv("SPROF_SPANS"), *colon = settings ? strchr(settings, ':') : NULL;
        if (colon) {
            state = (uint64_t)atoi(settings), length = strlen(colon + 1);
            if (length > sizeof name || (state != SPROF_COUNTER_ && state != SPROF_MONOTONIC_)) return 0;
            memcpy(name, colon + 1, length);
        }
    }
    if (!sprof_has_key_) {
        if (pthread_key_create(&sprof_end_of_thread_, sprof_thread_ends_) != 0) return 0;
        sprof_has_key_ = 1;
    }
    /* The kernel ends programs that make a file longer than this (SIGXFSZ). */
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_FSIZE, &limit);
    if (limit.rlim_cur < SPROF_RINGS_AT_) return 0;
    slots = (limit.rlim_cur - SPROF_RINGS_AT_) / (8 * SPROF_RING_WORDS_);
    if (slots > SPROF_MOST_SLOTS_) slots = SPROF_MOST_SLOTS_;
    own->descriptor = sprof_memory_(SPROF_RINGS_AT_ + slots * 8 * SPROF_RING_WORDS_);
    own->slots = slots;
    if (own->descriptor < 0 || fstat(own->descriptor, &own->file) != 0) return 0;
    uint64_t *head = (uint64_t *)mmap(NULL, SPROF_RINGS_AT_, PROT_READ | PROT_WRITE, MAP_SHARED, own->descriptor, 0);
    if (head == (void *)-1) return 0;
    __atomic_store_n(&own->head, head, __ATOMIC_RELEASE);
    /* By this sprof finds it. */
    (void)!mmap(NULL, SPROF_CODE_BYTES_, PROT_READ | PROT_EXEC, MAP_PRIVATE, own->descriptor, SPROF_RINGS_AT_ - SPROF_CODE_BYTES_);
    uint64_t texts = 8;
    if (parent) {
        texts = __atomic_load_n(&parent[SPROF_TEXTS_TAKEN_], __ATOMIC_ACQUIRE);
        if (texts > SPROF_TEXT_BYTES_) texts = SPROF_TEXT_BYTES_;
        memcpy((char *)head + SPROF_TEXTS_AT_, (char *)parent + SPROF_TEXTS_AT_, texts);
    }
    head[SPROF_TEXTS_TAKEN_] = texts, head[SPROF_PID_] = (uint64_t)getpid(), head[SPROF_SLOTS_] = slots;
    head[SPROF_READER_SEEN_] = sprof_monotonic_(), head[SPROF_SOCKET_] = length;
    memcpy(head + SPROF_SOCKET_ + 1, name, sizeof name);
    uint64_t magic;
    memcpy(&magic, "sprofsp\x01", 8);
    __atomic_store_n(&head[SPROF_VERSION_], magic, __ATOMIC_RELEASE);
    int is_sent = length > 0 && sprof_send_(name, length, own->descriptor);
    if (length > 0 && !is_sent && !parent) state = SPROF_OFF_;
    __atomic_store_n(&head[SPROF_STATE_], state, __ATOMIC_RELEASE);
    __atomic_store_n(&sprof_head_, head, __ATOMIC_RELEASE);
    __atomic_store_n(&sprof_state_, head, __ATOMIC_RELEASE);
    sprof_count_early_();
    return 1;
}

SPROF_COLD_ struct sprof_own_ *sprof_get_own_(void) {
    struct sprof_own_ *own = __atomic_load_n(&sprof_own_, __ATOMIC_ACQUIRE), *none = NULL;
    if (own) return own;
    own = (struct sprof_own_ *)mmap(NULL, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == (void *)-1) return NULL;
    /* MADV_WIPEONFORK: else a fork would write into the rings of its parent. */
    if (madvise(own, sizeof *own, 18) != 0
        || !__atomic_compare_exchange_n(&sprof_own_, &none, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        munmap(own, sizeof *own);
    }
    return __atomic_load_n(&sprof_own_, __ATOMIC_ACQUIRE);
}

SPROF_COLD_ int sprof_set_up_(void) {
    struct sprof_own_ *own = sprof_get_own_();
    uint64_t progress = 0;
    if (own && !__atomic_compare_exchange_n(&own->progress, &progress, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        return progress == 2;
    }
    if (own && sprof_make_(own)) {
        __atomic_store_n(&own->progress, 2u, __ATOMIC_RELEASE);
        return 1;
    }
    __atomic_store_n(&sprof_state_, &sprof_given_up_, __ATOMIC_RELEASE);
    return 0;
}

SPROF_COLD_ uint64_t sprof_slow_now_(void) {
    uint64_t state = SPROF_LOAD_(*SPROF_LOAD_(sprof_state_));
    if (state == SPROF_UNSET_) {
        if (!sprof_set_up_()) {
            SPROF_ADD_(sprof_early_, 1u);
            sprof_count_early_();
            return 0;
        }
        state = SPROF_LOAD_(*SPROF_LOAD_(sprof_state_));
    }
    return state == SPROF_COUNTER_ ? sprof_counter_() : state == SPROF_MONOTONIC_ ? sprof_monotonic_() : 0;
}

/* The time; 0 if nothing is recorded. */
static inline uint64_t sprof_now_(void) {
    uint64_t state = SPROF_LOAD_(*SPROF_LOAD_(sprof_state_));
    if (__builtin_expect(state == SPROF_OFF_, 1)) return 0;
    return state == SPROF_COUNTER_ ? sprof_counter_() : sprof_slow_now_();
}

SPROF_COLD_ int sprof_claim_(struct sprof_writer_ *writer, struct sprof_own_ *own) {
    uint64_t *head = own->head, slots = own->slots, index = 0, *slot = NULL;
    if (writer->has_ended || pthread_setspecific(sprof_end_of_thread_, writer) != 0) return 0;
    for (;; index++) {
        uint64_t none = 0, taken = SPROF_LOAD_(head[SPROF_SLOTS_TAKEN_]);
        if (index >= slots) return 0;
        if (index >= taken) index = SPROF_ADD_(head[SPROF_SLOTS_TAKEN_], 1u);
        if (index >= slots) return 0;
        slot = head + SPROF_SLOTS_AT_ / 8 + index * SPROF_SLOT_WORDS_;
        if (__atomic_compare_exchange_n(&slot[SPROF_SLOT_STATE_], &none, 1u, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
    }
    if (!own->rings[index]) {
        size_t bytes = 8 * (size_t)SPROF_RING_WORDS_;
        void *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own->descriptor, (off_t)(SPROF_RINGS_AT_ + index * bytes));
        struct stat file;
        /* A program may close all descriptors, and get their numbers for its own files. */
        if (ring != (void *)-1
            && (fstat(own->descriptor, &file) != 0 || file.st_ino != own->file.st_ino || file.st_dev != own->file.st_dev)) {
            munmap(ring, bytes);
            ring = (void *)-1;
        }
        if (ring == (void *)-1) {
            __atomic_store_n(&slot[SPROF_SLOT_STATE_], 0u, __ATOMIC_RELEASE);
            return 0;
        }
        madvise(ring, bytes, MADV_DONTFORK);
        madvise(ring, bytes, MADV_DONTDUMP);
        own->rings[index] = (uint64_t *)ring;
    }
    writer->tid = (uint32_t)syscall(SYS_gettid);
    __atomic_store_n(&slot[SPROF_SLOT_TID_], writer->tid, __ATOMIC_RELEASE);
    writer->ring = own->rings[index], writer->slot = slot, writer->progress = &own->progress;
    writer->head = slot[SPROF_SLOT_HEAD_];
    return 1;
}

SPROF_COLD_ void sprof_switch_(uint64_t samples) {
    struct sprof_own_ *own = sprof_get_own_();
    int tries = 0, is_ready = 0;
    /* In a fork, it is the parent's. */
    if (own && __atomic_load_n(&own->progress, __ATOMIC_ACQUIRE) != 2) sprof_writer_.slot = NULL;
    /* Another thread may be making the memory. */
    while (own && !is_ready && tries++ < 1000) {
        if (SPROF_LOAD_(sprof_state_) == &sprof_given_up_) return;
        is_ready = __atomic_load_n(&own->progress, __ATOMIC_ACQUIRE) == 2 || sprof_set_up_();
        if (!is_ready) syscall(SYS_sched_yield);
    }
    /* A thread that comes while another one switches leaves its switch out. */
    if (!is_ready || __atomic_exchange_n(&own->head[SPROF_SWITCH_LOCK_], 1u, __ATOMIC_ACQUIRE)) return;
    uint64_t *head = own->head, *words = head + SPROF_SWITCHES_AT_ / 8, count = SPROF_LOAD_(head[SPROF_SWITCHES_]);
    if (!count || (SPROF_LOAD_(words[(count - 1) % SPROF_MOST_SWITCHES_]) & 1) != samples) {
        SPROF_STORE_(words[count % SPROF_MOST_SWITCHES_], sprof_monotonic_() << 1 | samples);
        __atomic_store_n(&head[SPROF_SWITCHES_], count + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&head[SPROF_SWITCH_LOCK_], 0u, __ATOMIC_RELEASE);
}

/* From here on the recording of this process samples, on all threads and in all its processes, or does not. Nothing is
 * waited for. The last call counts. */
static inline void sprof_resume(void) { sprof_switch_(1); }
static inline void sprof_pause(void) { sprof_switch_(0); }

static inline uint64_t sprof_head_word_(uint64_t position, uint32_t site, uint64_t kind, size_t words) {
    return ~position << 32 | (uint64_t)site << 12 | kind << 8 | words;
}

/* Sees to it that the thread has a ring. False if there is none, which is counted. */
SPROF_COLD_ int sprof_claimed_(struct sprof_writer_ *writer) {
    struct sprof_own_ *own = sprof_get_own_();
    if (!own) return 0;
    if (__atomic_load_n(&own->progress, __ATOMIC_ACQUIRE) != 2) {
        writer->slot = NULL;
        if (!sprof_set_up_()) {
            if (sprof_head_) SPROF_ADD_(sprof_head_[SPROF_LOST_], 1u);
            return 0;
        }
    }
    if (!writer->slot && !sprof_claim_(writer, own)) {
        SPROF_ADD_(own->head[SPROF_LOST_], 1u);
        return 0;
    }
    return 1;
}

/* Makes room for a record. False if there is none, which is counted. */
SPROF_COLD_ int sprof_make_ready_(struct sprof_writer_ *writer) {
    if (!sprof_claimed_(writer)) return 0;
    struct sprof_own_ *own = sprof_get_own_();
    uint64_t tail = __atomic_load_n(&writer->slot[SPROF_SLOT_TAIL_], __ATOMIC_ACQUIRE);
    const uint64_t room = SPROF_RING_WORDS_ - SPROF_MOST_WORDS_;
    if (writer->head - tail <= room) {
        writer->limit = tail + room;
        return 1;
    }
    writer->limit = 0;
    SPROF_STORE_(writer->slot[SPROF_SLOT_LOST_], SPROF_LOAD_(writer->slot[SPROF_SLOT_LOST_]) + 1);
    uint64_t seen = SPROF_LOAD_(own->head[SPROF_READER_SEEN_]), now = sprof_monotonic_();
    if (now > seen && now - seen > SPROF_READER_LOST_NS_) SPROF_STORE_(own->head[SPROF_STATE_], (uint64_t)SPROF_OFF_);
    return 0;
}

static inline size_t sprof_length_(const char *text) {
    size_t length = strlen(text);
    return length > 255 ? 255 : length;
}

SPROF_COLD_ uint32_t sprof_write_text_(sprof_site *site, const sprof_field *fields, size_t count) {
    unsigned char text[8 + 10 + 9 * 255] = {0};
    size_t at = 1, index;
    uint64_t *head = sprof_head_;
    text[0] = (unsigned char)count;
    for (index = 0; index <= count; index++) text[at++] = (unsigned char)sprof_length_(index ? fields[index - 1].key : site->name);
    for (index = 0; index <= count; index++) {
        const char *part = index ? fields[index - 1].key : site->name;
        memcpy(text + at, part, sprof_length_(part));
        at += sprof_length_(part);
    }
    at = (at + 7) / 8 * 8;
    uint64_t start = SPROF_ADD_(head[SPROF_TEXTS_TAKEN_], (uint64_t)at);
    if (start > SPROF_TEXT_BYTES_ - at) {
        SPROF_ADD_(head[SPROF_LOST_], 1u);
        return 0;
    }
    memcpy((char *)head + SPROF_TEXTS_AT_ + start, text, at);
    __atomic_store_n(&site->id, (uint32_t)(start / 8), __ATOMIC_RELEASE);
    return (uint32_t)(start / 8);
}

static inline int sprof_ready_(struct sprof_writer_ *writer) {
    if (writer->slot && writer->head <= writer->limit && SPROF_LOAD_(*writer->progress) == 2) return 1;
    return sprof_make_ready_(writer);
}

static inline void sprof_put_(struct sprof_writer_ *writer, size_t index, uint64_t word) {
    SPROF_STORE_(writer->ring[(writer->head + index) % SPROF_RING_WORDS_], word);
}

/* Appends a record to the thread's ring: up to three words, then the fields. */
static inline void sprof_record_(sprof_site *site, uint64_t kind, size_t words, uint64_t one, uint64_t two, uint64_t three,
                                 const sprof_field *fields, size_t count) {
    struct sprof_writer_ *writer = &sprof_writer_;
    if (writer->is_writing) { /* a signal handler interrupted a record */
        if (sprof_head_) SPROF_ADD_(sprof_head_[SPROF_LOST_], 1u);
        return;
    }
    writer->is_writing = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (sprof_ready_(writer)) {
        uint32_t id = SPROF_LOAD_(site->id);
        if (count > SPROF_MOST_FIELDS_) count = SPROF_MOST_FIELDS_;
        if (!id) id = sprof_write_text_(site, fields, count);
        if (id) {
            size_t length = 1 + words, index;
            sprof_put_(writer, 1, one);
            if (words > 1) sprof_put_(writer, 2, two);
            if (words > 2) sprof_put_(writer, 3, three);
            if (count) {
                uint64_t types = 0;
                size_t types_at = length++;
                for (index = 0; index < count; index++) {
                    size_t done = 0, bytes = fields[index].type == 7 ? fields[index].word : 0;
                    types |= fields[index].type << 8 * index;
                    sprof_put_(writer, length++, fields[index].word);
                    for (bytes = bytes > 96 ? 96 : bytes; done < bytes; done += 8) {
                        uint64_t word = 0;
                        memcpy(&word, fields[index].text + done, bytes - done < 8 ? bytes - done : 8);
                        sprof_put_(writer, length++, word);
                    }
                }
                sprof_put_(writer, types_at, types);
            }
            sprof_put_(writer, 0, sprof_head_word_(writer->head, id, kind, length));
            writer->head += length;
            __atomic_store_n(&writer->slot[SPROF_SLOT_HEAD_], writer->head, __ATOMIC_RELEASE);
        }
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    writer->is_writing = 0;
}

/* A number that nothing else in this process has; 0 where nothing is recorded. */
SPROF_COLD_ uint64_t sprof_unique(void) {
    struct sprof_writer_ *writer = &sprof_writer_;
    uint64_t unique = 0;
    if (sprof_now_() == 0 || writer->is_writing) return 0;
    writer->is_writing = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (sprof_claimed_(writer)) unique = (uint64_t)writer->tid << 32 | ++writer->next_unique;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    writer->is_writing = 0;
    return unique;
}

static inline sprof_span sprof_begin_(sprof_site *site, const sprof_field *fields, size_t count) {
    sprof_span span;
    span.site = site, span.began = sprof_now_(), span.lane = 0, span.fields = fields, span.count = count;
    return span;
}

static inline sprof_span sprof_begin_async_(sprof_site *site) {
    sprof_span span = sprof_begin_(site, NULL, 0);
    if (span.began) {
        span.lane = sprof_unique();
        if (!span.lane) span.began = 0;
    }
    return span;
}

static inline void sprof_end_(sprof_span *span) {
    if (span->began) {
        uint64_t ended = sprof_now_(), kind = span->lane ? SPROF_KIND_ASYNC_ : SPROF_KIND_SPAN_;
        if (ended) sprof_record_(span->site, kind, span->lane ? 3 : 2, ended, span->began, span->lane, span->fields, span->count);
        span->began = 0;
    }
}

static inline void sprof_instant_(sprof_site *site, const sprof_field *fields, size_t count) {
    uint64_t now = sprof_now_();
    if (now) sprof_record_(site, SPROF_KIND_INSTANT_, 1, now, 0, 0, fields, count);
}

static inline void sprof_plot_(sprof_site *site, double value) {
    uint64_t now = sprof_now_();
    if (now) sprof_record_(site, SPROF_KIND_PLOT_, 2, now, sprof_f64("", value).word, 0, NULL, 0);
}

static inline void sprof_frame_(sprof_site *site, uint64_t *last) {
    uint64_t now = sprof_now_(), began = __atomic_exchange_n(last, now, __ATOMIC_RELAXED);
    if (now && began) sprof_record_(site, SPROF_KIND_SPAN_, 2, now, began, 0, NULL, 0);
}

#ifdef __cplusplus
}
#endif

#define SPROF_JOIN2_(one, two) one##two
#define SPROF_JOIN_(one, two) SPROF_JOIN2_(one, two)
#define SPROF_SITE_(variable, name) static sprof_site variable = {name, 0}
/* The first one is none: there may be no others. */
#define SPROF_FIELDS_(variable, ...) const sprof_field variable[] = {{0, 0, 0, 0}, ##__VA_ARGS__}
#define SPROF_COUNT_(variable) (sizeof variable / sizeof *variable - 1)

#define SPROF_SPAN(name, ...)                                                                                          \
    SPROF_SITE_(SPROF_JOIN_(sprof_site_, __LINE__), name);                                                             \
    SPROF_FIELDS_(SPROF_JOIN_(sprof_fields_, __LINE__), ##__VA_ARGS__);                                                \
    sprof_span SPROF_JOIN_(sprof_span_, __LINE__) __attribute__((cleanup(sprof_end_), unused)) =                       \
        sprof_begin_(&SPROF_JOIN_(sprof_site_, __LINE__), SPROF_JOIN_(sprof_fields_, __LINE__) + 1,                    \
                     SPROF_COUNT_(SPROF_JOIN_(sprof_fields_, __LINE__)))
#define SPROF_BEGIN(name) __extension__({ SPROF_SITE_(sprof_site_, name); sprof_begin_(&sprof_site_, NULL, 0); })
#define SPROF_BEGIN_ASYNC(name) __extension__({ SPROF_SITE_(sprof_site_, name); sprof_begin_async_(&sprof_site_); })
#define SPROF_END(span, ...)                                                                                           \
    do {                                                                                                               \
        SPROF_FIELDS_(sprof_fields_, ##__VA_ARGS__);                                                                   \
        (span)->fields = sprof_fields_ + 1, (span)->count = SPROF_COUNT_(sprof_fields_);                               \
        sprof_end_(span);                                                                                              \
    } while (0)
#define SPROF_INSTANT(name, ...)                                                                                       \
    do {                                                                                                               \
        SPROF_SITE_(sprof_site_, name);                                                                                \
        SPROF_FIELDS_(sprof_fields_, ##__VA_ARGS__);                                                                   \
        sprof_instant_(&sprof_site_, sprof_fields_ + 1, SPROF_COUNT_(sprof_fields_));                                  \
    } while (0)
#define SPROF_PLOT(name, value)                                                                                        \
    do {                                                                                                               \
        SPROF_SITE_(sprof_site_, name);                                                                                \
        sprof_plot_(&sprof_site_, (double)(value));                                                                    \
    } while (0)
#define SPROF_FRAME(name)                                                                                              \
    do {                                                                                                               \
        SPROF_SITE_(sprof_site_, name);                                                                                \
        static uint64_t sprof_last_ = 0;                                                                               \
        sprof_frame_(&sprof_site_, &sprof_last_);                                                                      \
    } while (0)

#else

typedef struct {
    int unused;
} sprof_span;

static const sprof_span sprof_none_ = {0};

#define sprof_unique() 0
#define sprof_resume() (void)0
#define sprof_pause() (void)0
#define SPROF_SPAN(name, ...) (void)0
#define SPROF_BEGIN(name) sprof_none_
#define SPROF_BEGIN_ASYNC(name) sprof_none_
#define SPROF_END(span, ...) (void)(span)
#define SPROF_INSTANT(name, ...) (void)0
#define SPROF_PLOT(name, value) (void)0
#define SPROF_FRAME(name) (void)0

#endif

#endif
