package server

import (
	"errors"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/node"
)

// wording is a kind of error in lnetctl's words.
type wording struct {
	err    error
	code   api.Code
	text   string // empty: what was attempted and the error number's own text
	remedy string
}

// worded puts an error of what was attempted into words: those of the first
// wording that it is of, else those of its error number. A Fault stays as it is.
func worded(attempted string, code api.Code, err error, words ...wording) *api.Fault {
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

// common are the wordings of what may happen to everything.
var common = []wording{
	{err: node.ErrClosed, code: api.CodeStopping, text: "Network is down", remedy: "lnetd is stopping: ask again once it is back"},
}
