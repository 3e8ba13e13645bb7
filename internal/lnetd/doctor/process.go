package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// process is the directory in /proc of a process.
type process string

func processOf(pid int) process { return process("/proc/" + strconv.Itoa(pid)) }

// examine sets what the directory shows about the limits and the start of the process.
func (p process) examine(h *diagnosis.Host) error {
	open, err := os.ReadDir(string(p) + "/fd")
	if err != nil {
		return err
	}
	limits, err := os.ReadFile(string(p) + "/limits")
	if err != nil {
		return err
	}
	status, err := os.ReadFile(string(p) + "/status")
	if err != nil {
		return err
	}
	h.Files = diagnosis.Files{Open: len(open), Limit: int(limit(limits, "Max open files"))}
	if !mayLock(status) {
		const kibibyte = 1024
		h.Lockable = limit(limits, "Max locked memory")
		h.Locked, _ = strconv.ParseUint(first(field(status, "VmPin:")), 10, 64)
		h.Locked *= kibibyte
	}
	h.Started, err = p.started()
	return err
}

// limit returns the soft limit with a name in the file limits, or 0 if it is unlimited.
func limit(limits []byte, name string) uint64 {
	n, _ := strconv.ParseUint(first(field(limits, name)), 10, 64)
	return n
}

// field returns the rest of the line that begins with the name.
func field(text []byte, name string) string {
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), name); ok {
			return rest
		}
	}
	return ""
}

// first returns the first word of a text.
func first(text string) string {
	if words := strings.Fields(text); len(words) > 0 {
		return words[0]
	}
	return ""
}

// mayLock reports whether the limit of locked memory does not apply to the process.
func mayLock(status []byte) bool {
	caps, err := strconv.ParseUint(first(field(status, "CapEff:")), 16, 64)
	return err == nil && caps&(1<<unix.CAP_IPC_LOCK) != 0
}

var errStat = errors.New("the file stat of the process has an unknown form")

// started returns when the process started, by the clock now.
func (p process) started() (time.Time, error) {
	b, err := os.ReadFile(string(p) + "/stat")
	if err != nil {
		return time.Time{}, err
	}
	const (
		startField     = 19 // in proc_pid_stat(5) the field 22, counted here from the one after the name
		ticksPerSecond = 100
	)
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name may contain blanks and parentheses
	if len(fields) <= startField {
		return time.Time{}, errStat
	}
	ticks, err := strconv.ParseInt(fields[startField], 10, 64)
	if err != nil {
		return time.Time{}, errStat
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(time.Duration(ticks)*time.Second/ticksPerSecond - time.Duration(boot.Nano())), nil
}
