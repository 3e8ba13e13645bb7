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
		"r.M0.net.rdma":         {{"node/a_test.go", "TestA"}},
		"sanity-lnet 2 (7)":     {{"cmd/ctl/testdata/script/a.txtar", ""}},
	}))
	_, tables, _ := strings.Cut(page, "|---|---|---|---|---|\n")
	tables = strings.ReplaceAll(tables, "\u00a0", " ")
	want := `| lnet-core | 8 | 2 | 1 | 5 |
| lnet-wire | 0 | 0 | 0 | 0 |
| socklnd | 0 | 0 | 0 | 0 |
| o2iblnd | 0 | 0 | 0 | 0 |
| discovery | 1 | 0 | 0 | 1 |
| selection | 0 | 0 | 0 | 0 |
| selftest | 0 | 0 | 0 | 0 |
| lnetctl | 0 | 0 | 0 | 0 |
| transport | 2 | 1 | 0 | 1 |
| transport-tests | 1 | 0 | 0 | 1 |
| mpilnd | 2 | 0 | 0 | 2 |
| sanity-lnet | 2 | 1 | 0 | 1 |

## lnet-core 2.2: Descriptors

| rule | about | shown by |
|---|---|---|
| 2.2 attach (1) | first | **neither test nor reason** |
| 2.2 attach (2) | second | **neither test nor reason** |
| 2.2 options | options | [node.TestA](../node/a_test.go), [portals.TestB](../lnet/portals/b_test.go) |
| 2.2 pages | pages | *internal: none here* |

## lnet-core 5.2: Steps

| rule | about | shown by |
|---|---|---|
| 5.2 (1) | one | **neither test nor reason** |
| 5.2 (2) | two | **neither test nor reason** |
| 5.2 (3a) | three \| a | [node.TestA](../node/a_test.go) |
| 5.2 (3b) | three b | **neither test nor reason** |

## discovery 9.1: Health

| rule | about | shown by |
|---|---|---|
| 9.1 | health | **neither test nor reason** |

## transport 1.1: Requirements

| rule | about | shown by |
|---|---|---|
| r.M0.net.rdma | rdma | [node.TestA](../node/a_test.go) |
| R.m0.self-test | tests | **neither test nor reason** |

## transport-tests C: Buffers

| rule | about | shown by |
|---|---|---|
| C (17) | seventeen | **neither test nor reason** |

## mpilnd A.6: Proxies

| rule | about | shown by |
|---|---|---|
| UP-1 | one | **neither test nor reason** |
| UP-10 | ten | **neither test nor reason** |

# Which test shows which behaviour

The cases of the reference's regression suites, by their numbers there. Ours are
other tests: they show the same behaviour, mostly without a network.

## sanity-lnet 2: Peers

| case | what is done, and expected | shown by |
|---|---|---|
| 2 (7) | seven | [ctl a.txtar](../cmd/ctl/testdata/script/a.txtar) |
| 2 (99a) | ninety-nine | **neither test nor reason** |
`
	if d := cmp.Diff(want, tables); d != "" {
		t.Errorf("tables (-want +got):\n%s", d)
	}
}
