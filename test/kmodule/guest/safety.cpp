// SPDX-License-Identifier: BSD-3-Clause
// Nobody but the kernel writes a page, nobody but its process maps it.
#include <sys/uio.h>

#include "guest.hpp"

namespace guest {
namespace {

bool refused(void* mapping, int number) {
    const int error = errno;
    if (mapping != MAP_FAILED) munmap(mapping, POLTER_PAGE_SIZE);
    return mapping == MAP_FAILED && error == number;
}

}  // namespace

void cannot_be_written() {
    // Root can do no more than others.
    for (const int flags : {O_RDWR, O_WRONLY}) CHECK(open_device(flags) < 0 && errno == EACCES);
    Session session;
    const auto noise = session.open();
    CHECK(noise != nullptr);
    if (!noise) return;
    auto* page = const_cast<polter_page_header*>(polter_noise_header(noise.get()));
    const int fd = open_device();
    CHECK(refused(map_slot(fd, 0, PROT_READ | PROT_WRITE), EACCES));
    CHECK(refused(map_slot(fd, 0, PROT_READ | PROT_EXEC), EACCES));
    CHECK(refused(map_slot(fd, 0, PROT_READ, MAP_PRIVATE), EACCES));
    CHECK(refused(map_slot(fd, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE), EACCES));
    CHECK(refused(map_slot(fd, 1), ENXIO));     // nobody's
    CHECK(refused(map_slot(fd, 9999), ENXIO));  // no slot
    CHECK(refused(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0), EINVAL));
    CHECK(refused(mmap(nullptr, 2 * POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0), EINVAL));
    CHECK(refused(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 4096), EINVAL));
    void* again = map_slot(fd, 0);
    CHECK(again != MAP_FAILED);
    close(fd);
    for (void* mapping : {static_cast<void*>(page), again}) {
        CHECK(mprotect(mapping, POLTER_PAGE_SIZE, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
        CHECK(mprotect(mapping, POLTER_PAGE_SIZE, PROT_READ | PROT_EXEC) != 0 && errno == EACCES);
        CHECK(mprotect(mapping, POLTER_PAGE_SIZE, PROT_READ) == 0);
        CHECK(mremap(mapping, POLTER_PAGE_SIZE, 2 * POLTER_PAGE_SIZE, MREMAP_MAYMOVE) == MAP_FAILED);
        // A debugger's ways.
        const char byte = 0;
        const int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        CHECK(pwrite(mem, &byte, 1, reinterpret_cast<off_t>(mapping)) < 0);
        close(mem);
        iovec from{const_cast<char*>(&byte), 1}, to{mapping, 1};
        CHECK(process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0);
        const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        CHECK(read(zeros, mapping, 1) < 0 && errno == EFAULT);
        close(zeros);
    }
    CHECK_EQ(page->magic, POLTER_PAGE_MAGIC);
    // The file behind a mapping is empty, and is not the device.
    const std::string maps = read_file("/proc/self/maps");
    CHECK(maps.find("/polter") != std::string::npos);
    CHECK(maps.find(POLTER_DEVICE) == std::string::npos);
    munmap(again, POLTER_PAGE_SIZE);
}

void other_users() {
    Session session;
    const auto noise = session.open();
    CHECK(noise != nullptr);
    const int fd = open_device();
    // A forked child has the descriptor and the addresses, and neither helps.
    const auto* page = polter_noise_header(noise.get());
    CHECK_EQ(in_child([&] {
                 CHECK(page == nullptr || refused(map_slot(fd, 0), ENXIO));
                 unsigned slot = 0;
                 CHECK(ioctl(fd, POLTER_DEVICE_LEAVE, &slot) != 0 && errno == ESRCH);
                 CHECK(ioctl(fd, POLTER_DEVICE_THREAD, &slot) != 0 && errno == ESRCH);
                 CHECK(ioctl(fd, POLTER_DEVICE_END) != 0 && errno == ESRCH);
                 CHECK(ioctl(fd, POLTER_DEVICE_ALIVE) != 0 && errno == ESRCH);
                 return 0;
             }),
             0);
    CHECK_EQ(in_child([&] { return *reinterpret_cast<const volatile std::uint64_t*>(page) != 0; }), 128 + SIGSEGV);
    // Another user may measure himself, and gets his own page wherever he asks.
    CHECK_EQ(in_child([&] {
                 CHECK(become(1000));
                 CHECK(refused(map_slot(fd, 0), ENXIO));
                 Session his;
                 const auto mine = his.open();
                 CHECK(mine != nullptr);
                 if (!mine) return 1;
                 CHECK_EQ(polter_noise_header(mine.get())->pid, getpid());
                 void* at = map_slot(fd, 0);
                 CHECK(at != MAP_FAILED);
                 CHECK_EQ(static_cast<polter_page_header*>(at)->pid, getpid());
                 for (unsigned slot = 1; slot < 64; slot++) CHECK(refused(map_slot(fd, slot), ENXIO));
                 // Not more than his half.
                 Session big(POLTER_DEVICE, 100000);
                 CHECK(big.handle == nullptr);
                 return 0;
             }),
             0);
    // A page that is kept beyond its registration shows nobody else's thread, though its slot and its memory are used again.
    CHECK_EQ(in_child([&] {
                 Session his;
                 unsigned slot = 99;
                 CHECK(ioctl(fd, POLTER_DEVICE_THREAD, &slot) == 0);
                 auto* kept = static_cast<polter_page_header*>(map_slot(fd, slot));
                 CHECK(kept != MAP_FAILED);
                 CHECK(ioctl(fd, POLTER_DEVICE_LEAVE, &slot) == 0);
                 CHECK_EQ(kept->state, POLTER_PAGE_FROZEN);
                 const polter_page_header last = *kept;
                 for (int i = 0; i < 20; i++) {
                     CHECK_EQ(in_child([&] {
                                  Session other;
                                  const auto page = other.open();
                                  spin(5 * ms);
                                  return page == nullptr;
                              }),
                              0);
                     CHECK(ioctl(fd, POLTER_DEVICE_THREAD, &slot) == 0);
                     CHECK(ioctl(fd, POLTER_DEVICE_LEAVE, &slot) == 0);
                 }
                 CHECK(std::memcmp(kept, &last, sizeof last) == 0);
                 return 0;
             }),
             0);
    close(fd);
    // The same number of a job under two users is two jobs; under one user it is one. Seen by who is whose mate.
    for (const unsigned user : {0u, 1000u}) {
        int ready[2];
        CHECK(pipe(ready) == 0);
        const pid_t mate = child([&] {
            if (user) CHECK(become(user));
            pin(1);
            Session his(POLTER_DEVICE, 0, 77);
            char byte = his.handle != nullptr;
            (void)!write(ready[1], &byte, 1);
            spin(3000 * ms);
            return 0;
        });
        char byte = 0;
        CHECK(read(ready[0], &byte, 1) == 1 && byte == 1);
        CHECK_EQ(in_child([&] {
                     pin(1);
                     Session mine(POLTER_DEVICE, 0, 77);
                     const auto page = mine.open();
                     spin(400 * ms);
                     polter_counters c;
                     CHECK(page && polter_noise_snapshot(page.get(), &c) == 0);
                     const unsigned yes = user ? POLTER_PREEMPT : POLTER_PREEMPT_JOB, no = user ? POLTER_PREEMPT_JOB : POLTER_PREEMPT;
                     CHECK(c.ns[yes] > 50 * ms);
                     CHECK(c.ns[no] < c.ns[yes] / 2);
                     return 0;
                 }),
                 0);
        kill(mate, SIGKILL);
        wait_for(mate);
        close(ready[0]), close(ready[1]);
    }
}

}  // namespace guest
