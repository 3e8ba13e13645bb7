package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageRows(t *testing.T) {
	page := string(Page(few(t), map[string][]Test{
		"lnet-core 2.2 options": {{"node/a_test.go", "TestA"}, {"lnet/portals/b_test.go", "TestB"}},
		"lnet-core 5.2 (3a)":    {{"node/a_test.go", "TestA"}},
	}))
	_, tables, _ := strings.Cut(page, "\n9 rules")
	tables = strings.ReplaceAll(tables, "\u00a0", " ")
	want := `: 2 with tests, 1 with a reason, 6 with neither.

## lnet-core 2.2: Descriptors

| rule | about | shown by |
|---|---|---|
| 2.2 attach (1) | first | *none* |
| 2.2 attach (2) | second | *none* |
| 2.2 options | options | [node.TestA](../node/a_test.go), [portals.TestB](../lnet/portals/b_test.go) |
| 2.2 pages | pages | *internal: none here* |

## lnet-core 5.2: Steps

| rule | about | shown by |
|---|---|---|
| 5.2 (1) | one | *none* |
| 5.2 (2) | two | *none* |
| 5.2 (3a) | three \| a | [node.TestA](../node/a_test.go) |
| 5.2 (3b) | three b | *none* |

## discovery 9.1: Health

| rule | about | shown by |
|---|---|---|
| 9.1 | health | *none* |
`
	if d := cmp.Diff(want, tables); d != "" {
		t.Errorf("tables (-want +got):\n%s", d)
	}
}
