package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/internal/control"
)

// newErrorDocument prints the error document of lnetctl's newer interface,
// where errno and descr stand beside the entity (lnetctl 2.1).
func newErrorDocument(w io.Writer, op, entity string, errno int, descr string) {
	fmt.Fprintln(w, "---")
	_ = wide.write(w, mapping{{op, sequence{{
		{entity, nil},
		{"errno", number(errno)},
		{"descr", tagged(descr)},
	}}}})
	fmt.Fprintln(w, "...")
}

// oldErrorDocument prints the error document of lnetctl's library, where errno
// and descr stand below the entity (lnetctl 2.2).
func oldErrorDocument(w io.Writer, op, entity string, errno int, descr string) {
	_ = classic.write(w, mapping{{op, sequence{{
		{entity, mapping{
			{"errno", number(errno)},
			{"descr", quoted(descr)},
		}},
	}}}})
}

// refused reports that the daemon refused or could not be asked, as errors of
// op on entity, and returns the exit status.
func (p *program) refused(op, entity string, err error) error {
	f := control.FaultOf(err)
	unreachable := f.Code == control.CodeDaemonUnreachable
	switch {
	case p.json:
		p.failJSON(f)
	case unreachable:
		descr := f.Text
		if f.Cause != "" {
			descr += ": " + f.Cause
		}
		oldErrorDocument(p.stderr, "lnetctl", "startup", -1, descr)
	default:
		newErrorDocument(p.stderr, op, entity, f.Errno, f.Text)
		if f.Cause != f.Text {
			p.hint(f.Cause)
		}
	}
	p.hint(f.Remedy)
	if unreachable {
		return status(exitFailure)
	}
	return status(exitInvalid)
}

// fail reports an error that no command has reported.
func (p *program) fail(err error) {
	var f *control.Fault
	switch {
	case p.json:
		p.failJSON(control.FaultOf(err))
	case errors.As(err, &f):
		fmt.Fprintf(p.stderr, "%s: %s", p.name, f.Report())
	default:
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	}
}

func (p *program) failJSON(f *control.Fault) {
	out := *p
	out.stdout = p.stderr
	_ = out.printJSON(struct {
		Error *control.Fault `json:"error"`
	}{f})
}
