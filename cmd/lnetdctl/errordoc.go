package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/internal/control/api"
)

// errorForm is how a command tells that it was refused.
type errorForm struct {
	kind       errorKind
	op, entity string
	// silent are the codes that lnetctl prints nothing about; a terminal gets a
	// hint.
	silent []api.Code
	// exit, if not 0, is the exit status whatever the errno.
	exit status
}

type errorKind uint8

const (
	// newDocument: errno and descr stand beside the entity; the exit status is
	// that of invalid requests, whatever the errno (lnetctl 2.1).
	newDocument errorKind = iota
	// oldDocument: errno and descr stand below the entity; the exit status is
	// the errno's (lnetctl 2.2).
	oldDocument
	// plainText: a line on stdout; the exit status is the errno's (lnetctl 2.4).
	plainText
	// ownText: a line on stderr, of commands that lnetctl has not; the exit status is the
	// errno's.
	ownText
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

// refused reports that the daemon refused or could not be asked, and returns
// the exit status.
func (p *program) refused(form errorForm, err error) error {
	f := api.FaultOf(err)
	exit := form.exit
	switch {
	case exit != 0:
	case form.kind == newDocument:
		exit = exitInvalid
	default:
		exit = statusOf(f.Errno)
	}
	switch {
	case p.json:
		p.failJSON(f)
		if f.Code == api.CodeDaemonUnreachable {
			exit = exitFailure
		}
		return exit
	case f.Code == api.CodeDaemonUnreachable:
		descr := f.Text
		if f.Cause != "" {
			descr += ": " + f.Cause
		}
		oldErrorDocument(p.stderr, "lnetctl", "startup", -1, descr)
		p.hint(f.Remedy)
		return status(exitFailure)
	}
	form.report(p, f)
	if f.Cause != f.Text {
		p.hint(f.Cause)
	}
	p.hint(f.Remedy)
	return exit
}

func (form *errorForm) report(p *program, f *api.Fault) {
	for _, code := range form.silent {
		if code == f.Code {
			p.hint(f.Text)
			return
		}
	}
	switch form.kind {
	case newDocument:
		newErrorDocument(p.stderr, form.op, form.entity, f.Errno, f.Text)
	case oldDocument:
		oldErrorDocument(p.stderr, form.op, form.entity, f.Errno, f.Text)
	case plainText:
		fmt.Fprintln(p.stdout, f.Text)
	case ownText:
		fmt.Fprintf(p.stderr, "%s: %s\n", p.name, f.Text)
	}
}

// invalid reports, as refused does, what need not be asked.
func (p *program) invalid(form errorForm, errno int, text, remedy string) error {
	return p.refused(form, &api.Fault{
		Code: api.CodeRequestInvalid, Errno: errno, Text: text, Remedy: remedy,
	})
}

// statusOf is an errno as an exit status: cut to 8 bits (lnetctl 1.4).
func statusOf(errno int) status {
	if s := status(errno & 0xff); s != exitOK {
		return s
	}
	return exitInvalid
}

// fail reports an error that no command has reported.
func (p *program) fail(err error) {
	var f *api.Fault
	switch {
	case p.json:
		p.failJSON(api.FaultOf(err))
	case errors.As(err, &f):
		fmt.Fprintf(p.stderr, "%s: %s", p.name, f.Report())
	default:
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	}
}

func (p *program) failJSON(f *api.Fault) {
	out := *p
	out.stdout = p.stderr
	_ = out.printJSON(struct {
		Error *api.Fault `json:"error"`
	}{f})
}
