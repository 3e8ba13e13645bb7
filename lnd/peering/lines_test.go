package peering

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// The end of connections is a warning if the peer has broken the protocol.
func TestSayClosed(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{io.EOF, `level=INFO msg="connections closed" peer=1@tcp count=3 cause=EOF`},
		{fmt.Errorf("%w: magic", lnd.ErrProtocol), `level=WARN msg="connections closed" peer=1@tcp count=3 cause="`},
	} {
		var out bytes.Buffer
		logClosed(boundedlog.New(slog.New(slog.NewTextHandler(&out, nil))), lnet.NIDFromNumber(tcp, 1), 3, tt.cause)
		if want := strings.Replace(tt.want, "1@tcp", lnet.NIDFromNumber(tcp, 1).String(), 1); !strings.Contains(out.String(), want) {
			t.Errorf("the line is %s, want %s", out.String(), want)
		}
	}
}
