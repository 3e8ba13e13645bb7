package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lnetd/lnetd/internal/control/api"
)

// errorForm is how a command tells that it was refused.
type errorForm struct {
	kind       errorKind
	op, entity string
	// seqNo is the number of the block of a document that asked for it; nil: none.
	seqNo *int64
	// exit, if not 0, is the exit status whatever the errno; byErrno has a new document's
	// be that of the errno, too.
	exit    status
	byErrno bool
	// explained has the text say the cause and the remedy too, on a pipe as at a terminal:
	// lnetctl has no such text to compare with.
	explained bool
	// advises has the valid values printed even where a script may compare the output: they
	// are a part of what is wrong. It is a warning, so the document stays lnetctl's.
	advises bool
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
func newErrorDocument(w io.Writer, op string, errors ...mapping) {
	fmt.Fprintln(w, "---")
	_ = wide.write(w, mapping{{op, sequence(errors)}})
	fmt.Fprintln(w, "...")
}

// errorEntry is one error of such a document, or of a ping or a discovery. seqNo is the number of
// the block of a document that it is about; nil: none.
func errorEntry(entity string, seqNo *int64, errno int, descr scalar) mapping {
	m := mapping{{entity, nil}}
	if seqNo != nil {
		m = append(m, entry{"seq_no", number(*seqNo)})
	}
	return append(m, entry{"errno", number(errno)}, entry{"descr", descr})
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
	case form.kind == newDocument && !form.byErrno:
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
	if form.explained && len(f.Problems) == 0 {
		form.report(p, &api.Fault{Errno: f.Errno, Text: faultText(f), SeqNo: f.SeqNo})
		return exit
	}
	form.report(p, f)
	if f.Cause != f.Text && len(f.Problems) == 0 {
		p.hint(f.Cause)
	}
	if form.advises && f.Remedy != "" && (f.Code == api.CodeParameterInvalid || f.Code == api.CodeRequestInvalid) {
		p.warn(f.Remedy)
	} else {
		p.hint(f.Remedy)
	}
	return exit
}

// faultText is all of a refusal but its code, on one line.
func faultText(f *api.Fault) string {
	s := f.Text
	if f.Cause != "" && !strings.Contains(s, f.Cause) {
		s += ": " + f.Cause
	}
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}

func (form *errorForm) report(p *program, f *api.Fault) {
	if len(f.Problems) > 0 {
		form.reportProblems(p, f)
		return
	}
	switch form.kind {
	case newDocument:
		newErrorDocument(p.stderr, form.op, errorEntry(form.entity, cmp.Or(form.seqNo, f.SeqNo), f.Errno, tagged(f.Text)))
	case oldDocument:
		oldErrorDocument(p.stderr, form.op, form.entity, f.Errno, f.Text)
	case plainText:
		fmt.Fprintln(p.stdout, f.Text)
	case ownText:
		fmt.Fprintf(p.stderr, "%s: %s\n", p.name, f.Text)
	}
}

// reportProblems tells all that is wrong in a document, each as an error of its own.
func (form *errorForm) reportProblems(p *program, f *api.Fault) {
	if form.kind != newDocument {
		for k := range f.Problems {
			fmt.Fprintf(p.stderr, "%s: %s\n", p.name, f.Problems[k].Error())
		}
		return
	}
	var list sequence
	for k := range f.Problems {
		list = append(list, errorEntry(form.entity, f.Problems[k].SeqNo, f.Errno, tagged(f.Problems[k].Error())))
	}
	newErrorDocument(p.stderr, form.op, list...)
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
