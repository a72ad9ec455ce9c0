// Process 1 is there for those who ask, and negative ids.
#include "check.h"
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>

int main(void) {
    struct sched_param param;
    struct timespec interval;
    cpu_set_t set;
    PART("process 1");
    OK(getpgid(1));
    OK(getsid(1));
    // Which policy and nice value the host's has is its own matter.
    OK(sched_getscheduler(1));
    T(sched_getparam(1, &param));
    T(sched_rr_get_interval(1, &interval));
    OK(syscall(SYS_sched_getaffinity, 1, sizeof set, &set));
    OK(getpriority(PRIO_PROCESS, 1));
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 1};
    struct __user_cap_data_struct data[2];
    T(syscall(SYS_capget, &header, data));

    PART("negative ids");
    T(sched_getscheduler(-1));
    T(sched_getparam(-1, &param));
    T(sched_rr_get_interval(-1, &interval));
    T(syscall(SYS_sched_getaffinity, -1, sizeof set, &set));
    T(syscall(SYS_sched_getaffinity, -1, 7, &set));
    T(getpriority(PRIO_PROCESS, -1));
    T(getpgid(-1));
    T(getsid(-1));
    return 0;
}
