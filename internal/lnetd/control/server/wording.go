package server

import (
	"errors"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// wording is the fault that describedError makes of an error that wraps err, in lnetctl's words.
type wording struct {
	err    error
	code   api.Code
	text   string // if empty, the text names the attempted action and the error number
	remedy string
}

// describedError returns the fault for a client whose request failed with err. If err wraps a Fault,
// describedError returns that. Otherwise it uses the first of words that matches err. If no wording matches,
// the fault has the given code, and its text names the attempted action and the error number.
func describedError(attempted string, code api.Code, err error, words ...wording) *api.Fault {
	if f := (*api.Fault)(nil); errors.As(err, &f) {
		return f
	}
	errno := Errno(err)
	f := api.Fault{Code: code, Errno: -int(errno), Text: attempted + ": " + api.Strerror(errno)}
	for _, w := range append(words, common...) {
		if !errors.Is(err, w.err) {
			continue
		}
		f.Code, f.Remedy = w.code, w.remedy
		if w.text != "" {
			f.Text = w.text
		}
		break
	}
	return f.Because(err)
}

// common holds the wordings that describedError uses for all requests, after those of the request.
var common = []wording{
	{err: node.ErrClosed, code: api.CodeStopping, text: "Network is down", remedy: "lnetd is stopping; try again when it runs again"},
}
