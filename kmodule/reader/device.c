/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int polter_device_is_there(void) {
    return access(POLTER_DEVICE, R_OK) == 0;
}

int polter_is_device(const char* path) {
    struct stat info;
    /* Use the module's path even where it does not exist, so that the error names the module. */
    return stat(path, &info) == 0 ? S_ISCHR(info.st_mode) : strcmp(path, POLTER_DEVICE) == 0;
}

static int open_device(const char* path, char* error, size_t error_size) {
    /* Not kept open between requests: an open device would keep the module from being unloaded. */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        snprintf(error, error_size, "cannot open %s: %s%s", path, strerror(errno),
                 errno == ENOENT || errno == ENXIO || errno == ENODEV ? "; the kernel module is not loaded: modprobe polter" : "");
    return fd;
}

static const char* meaning(int number) {
    switch (number) {
        case ESRCH:
            return "this process is not registered; the module was unloaded meanwhile, or another tool has ended its registration";
        case EEXIST:
            return "this process or thread is registered already; only one tool in a process can read its noise";
        case ENOSPC:
            return "the noise pages of this process are taken, or more were asked for than there are; ask for others when registering it";
        case EDQUOT:
            return "this user may not register more: one user can have half of what the others leave of the node's processes and noise "
                   "pages, and a page counts until nobody maps it any more";
        case EPROTO:
        case ENOTTY:
            return "it speaks another version of the interface; use the module of this installation";
    }
    return strerror(number);
}

/* One request on a descriptor of its own. */
static int ask(const char* path, unsigned long request, void* argument, char* error, size_t error_size) {
    int fd = open_device(path, error, error_size);
    if (fd < 0) return -1;
    int result = ioctl(fd, request, argument), number = errno;
    close(fd);
    if (result < 0) snprintf(error, error_size, "%s: %s", path, meaning(number));
    errno = number;
    return result;
}

int polter_device_status(const char* path, struct polter_device_status* status, char* error, size_t error_size) {
    if (ask(path, POLTER_DEVICE_STATUS, status, error, error_size) < 0) return -1;
    if (status->version != POLTER_DEVICE_VERSION) {
        snprintf(error, error_size, "%s: %s", path, meaning(EPROTO));
        return -1;
    }
    status->product_version[sizeof status->product_version - 1] = 0;
    return 0;
}

int polter_device_register(const char* path, polter_u64 job, polter_u32 threads, char* error, size_t error_size) {
    struct polter_device_process process = {.version = POLTER_DEVICE_VERSION, .threads = threads, .job = job};
    return ask(path, POLTER_DEVICE_PROCESS, &process, error, error_size);
}

void polter_device_end(const char* path) {
    char ignored[8];
    ask(path, POLTER_DEVICE_END, NULL, ignored, sizeof ignored);
}

int polter_device_alive(const char* path) {
    char ignored[8];
    if (ask(path, POLTER_DEVICE_ALIVE, NULL, ignored, sizeof ignored) == 0) return 1;
    return errno != ESRCH && errno != ENOENT && errno != ENXIO && errno != ENODEV && errno != ENOTTY;
}

int polter_device_thread(const char* path, polter_u32* slot, char* error, size_t error_size) {
    int fd = open_device(path, error, error_size);
    if (fd < 0) return -1;
    if (ioctl(fd, POLTER_DEVICE_THREAD, slot) < 0) {
        snprintf(error, error_size, "%s: %s", path, meaning(errno));
        close(fd);
        return -1;
    }
    return fd;
}

void polter_device_leave(const char* path, polter_u32 slot) {
    char ignored[8];
    ask(path, POLTER_DEVICE_LEAVE, &slot, ignored, sizeof ignored);
}
