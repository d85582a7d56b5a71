/* SPDX-License-Identifier: MIT */
/*
 * The private daemon: see private.h. It says that it is ready as it says it to systemd: READY=1 in
 * a datagram to NOTIFY_SOCKET.
 */

#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/source.h"
#include "cli/tree.h"

#define READY_TIMEOUT_MS 10000
#define END_TIMEOUT_MS	 5000

static int make_dir(struct private_daemon *p)
{
	const char *tmp = getenv("TMPDIR");

	/* What lies in it are sockets: their paths must be short. */
	if (!tmp || *tmp != '/' || strlen(tmp) > 60)
		tmp = "/tmp";
	if (asprintf(&p->dir, "%s/varve-XXXXXX", tmp) < 0)
		p->dir = NULL;
	if (!p->dir)
		return cli_fail("out of memory");
	/* Open to all: the command may start programs of other users. */
	if (!mkdtemp(p->dir) || chmod(p->dir, 0755) != 0) {
		cli_fail("cannot make a run directory in %s: %s", tmp, strerror(errno));
		free(p->dir);
		p->dir = NULL;
		return CLI_FAILED;
	}
	return 0;
}

/* A datagram socket in the directory, for NOTIFY_SOCKET. -errno. */
static int make_notify_socket(const struct private_daemon *p, struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(addr->sun_path, sizeof(addr->sun_path), "%s/notify", p->dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(*addr)) == 0)
		return fd < 0 ? -errno : fd;
	close(fd);
	return -errno;
}

static int open_log(const struct private_daemon *p)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/log", p->dir);
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

/* The child: becomes varved. */
static void become_daemon(const struct private_daemon *p, const char *varved, pid_t parent,
	const char *notify, int log)
{
	int null = open("/dev/null", O_RDWR);

	/* Its own session: ^C is for the command. Our death is its own. */
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(log >= 0 ? log : null, STDERR_FILENO);
	setenv("NOTIFY_SOCKET", notify, 1);
	execl(varved, varved, "--foreground", "--rundir", p->dir, (char *)NULL);
	dprintf(STDERR_FILENO, "%s: %s\n", varved, strerror(errno));
	_exit(CLI_FAILED);
}

/* True when READY=1 came; false when the daemon ended or the time was over. */
static bool wait_ready(const struct private_daemon *p, int notify_fd)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	struct pollfd fds[] = { { notify_fd, POLLIN, 0 }, { pid_fd, POLLIN, 0 } };
	bool ready = false;
	char text[256];
	ssize_t n;

	while (!ready && !cli_interrupted() && poll(fds, 2, READY_TIMEOUT_MS) > 0) {
		if (!(fds[0].revents & POLLIN))
			break;
		n = recv(notify_fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		ready = strstr(text, "READY=1");
	}
	if (pid_fd >= 0)
		close(pid_fd);
	return ready;
}

/* What the daemon said last, or why there is nothing. */
static int tell_log(int log)
{
	char text[4096], *line;
	ssize_t n = log >= 0 ? pread(log, text, sizeof(text) - 1, 0) : 0;

	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n > 0 ? n : 0] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	return cli_fail("the private varved did not start: %s", *line ? line : "no reason given");
}

int private_start(struct private_daemon *p)
{
	struct sockaddr_un addr;
	char *varved;
	int r, notify_fd, log;
	pid_t parent = getpid();

	*p = (struct private_daemon){ 0 };
	varved = source_varved();
	r = varved ? make_dir(p) : CLI_FAILED;
	if (r != 0) {
		free(varved);
		return r;
	}
	notify_fd = make_notify_socket(p, &addr);
	log = open_log(p);
	p->pid = notify_fd >= 0 ? fork() : -1;
	if (p->pid == 0)
		become_daemon(p, varved, parent, addr.sun_path, log);
	if (p->pid < 0) {
		p->pid = 0;
		r = cli_fail("cannot start %s: %s", varved, strerror(errno));
	} else if (!wait_ready(p, notify_fd)) {
		r = cli_interrupted() ? CLI_FAILED : tell_log(log);
	}
	if (notify_fd >= 0) {
		close(notify_fd);
		unlink(addr.sun_path);
	}
	if (log >= 0)
		close(log);
	free(varved);
	if (r != 0)
		private_stop(p);
	return r;
}

int private_check(const struct private_daemon *p)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid)
		return 0;
	return cli_fail("the private varved was killed, and the recording with it");
}

static void end_daemon(pid_t pid)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fd = { pid_fd, POLLIN, 0 };

	kill(pid, SIGTERM);
	if (poll(&fd, 1, END_TIMEOUT_MS) <= 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (pid_fd >= 0)
		close(pid_fd);
}

void private_stop(struct private_daemon *p)
{
	if (p->pid > 0)
		end_daemon(p->pid);
	if (p->dir)
		tree_remove(AT_FDCWD, p->dir);
	free(p->dir);
	*p = (struct private_daemon){ 0 };
}
