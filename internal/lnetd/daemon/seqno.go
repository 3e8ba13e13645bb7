package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// numbered returns err, an error about the document doc, with sequence numbers added: each problem gets
// the "seq_no" of the block that it is in. Other errors are returned unchanged.
func (b *backend) numbered(ctx context.Context, doc *api.Document, err error) error {
	f, ok := errors.AsType[*api.Fault](err)
	if !ok || !strings.Contains(doc.Text, "seq_no") {
		return err
	}
	var list config.SeqNos
	if busy := b.alone(ctx, doc, func() { list = config.ParseSeqNos(ctx, []byte(doc.Text)) }); busy != nil {
		return err
	}
	numbered := *f
	if n, ok := list.Of(config.ProblemAt(doc.Name, f.Text, "", "")); ok { // the fault's text may begin with a position
		numbered.SeqNo = &n
	}
	numbered.Problems = slices.Clone(f.Problems)
	for k := range numbered.Problems {
		if n, ok := list.Of(&numbered.Problems[k]); ok {
			numbered.Problems[k].SeqNo = &n
		}
	}
	return &numbered
}
