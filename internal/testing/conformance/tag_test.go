package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// few returns a specification of a few sections.
func few(t *testing.T) []Section {
	t.Helper()
	sections, err := parseRules("x.txt", strings.Join([]string{
		"= lnet-core 2.2\tDescriptors",
		"lnet-core 2.2 attach (1)\tfirst",
		"lnet-core 2.2 attach (2)\tsecond",
		"lnet-core 2.2 options\toptions",
		"lnet-core 2.2 pages\tpages\tinternal: none here",
		"= lnet-core 5.2\tSteps",
		"lnet-core 5.2 (1)\tone",
		"lnet-core 5.2 (2)\ttwo",
		"lnet-core 5.2 (3a)\tthree | a",
		"lnet-core 5.2 (3b)\tthree b",
		"= discovery 9.1\tHealth",
		"discovery 9.1\thealth",
		"= transport 1.1\tRequirements",
		"r.M0.net.rdma\trdma",
		"R.m0.self-test\ttests",
		"= transport-tests C\tBuffers",
		"transport-tests C (17)\tseventeen",
		"= mpilnd A.6\tProxies",
		"UP-1\tone",
		"UP-10\tten",
		"= sanity-lnet 2\tPeers",
		"sanity-lnet 2 (7)\tseven",
		"sanity-lnet 2 (99a)\tninety-nine",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

func TestTags(t *testing.T) {
	sections := few(t)
	for _, c := range []struct {
		line string
		want string // ids, or the error
	}{
		{"an ordinary comment", ""},
		{"lnet-core", ""},
		{"the rows of lnet-core 5.2", ""},
		{" lnet-core 5.2 (1)", "lnet-core 5.2 (1)"},
		{" discovery 9.1\n", "discovery 9.1"},
		{" sanity-lnet 2 (7), 2 (99a)", "sanity-lnet 2 (7)|sanity-lnet 2 (99a)"},
		{" sanity-lnet 2 (7)-(8)", "sanity-lnet 2 (7)-(8): no such rule"},
		{" selection 5.1 (1)", "selection 5.1 (1): no such rule"},
		{" sanity 2 (7)", ""},
		{" transport-tests C (17), C (18)", "transport-tests C (18): no such rule"},
		{" transport-tests C (17)", "transport-tests C (17)"},
		{" r.m0.net.rdma", "r.M0.net.rdma"},
		{" r.m0.Self-Test\n", "R.m0.self-test"},
		{" r.m0.net.ib", "r.m0.net.ib: no such requirement"},
		{" r.M0.net.rdma is one", ""},
		{" UP-1", "UP-1"},
		{" UP-10, UP-1\n", "UP-10|UP-1"},
		{" UP-1, r.m0.net.rdma", "UP-1|r.M0.net.rdma"},
		{" UP-1, UP-2", "UP-2: no such requirement"},
		{" UP-1 and UP-10", ""},
		{" UP-1, for example", ""},
		{" lnet-core 5.2 (3)", "lnet-core 5.2 (3a)|lnet-core 5.2 (3b)"},
		{" lnet-core 5.2 (3b), 2.2 options", "lnet-core 5.2 (3b)|lnet-core 2.2 options"},
		{" lnet-core 2.2 attach (1)-(2),5.2 (1)", "lnet-core 2.2 attach (1)|lnet-core 2.2 attach (2)|lnet-core 5.2 (1)"},
		{" lnet-core 2.2 attach (1)-(3)", "lnet-core 2.2 attach (1)-(3): no such rule"},
		{" lnet-core 5.2 (2)-(4)", "lnet-core 5.2 (2)-(4): no such rule"},
		{" lnet-core 5.2 (2)-(3)", "lnet-core 5.2 (2)|lnet-core 5.2 (3a)|lnet-core 5.2 (3b)"},
		{" lnet-core 5.2", "lnet-core 5.2: no such rule"},
		{" lnet-core 2.2 attach", "lnet-core 2.2 attach: no such rule"},
		{" lnet-core 5.2 (3c)", "lnet-core 5.2 (3c): no such rule"},
		{" lnet-core 9.1", "lnet-core 9.1: no such rule"},
		{" lnet-core 5.2 (1): fits", `"5.2 (1): fits" is not of the form SECTION [LIST] [(N)[-(M)]]`},
		{" lnet-core 5.2 (1),", `"" is not of the form SECTION [LIST] [(N)[-(M)]]`},
		{" lnet-core 5.2 (3a)-(4)", `"5.2 (3a)-(4)": no such range`},
		{" lnet-core 5.2 (3)-(1)", `"5.2 (3)-(1)": no such range`},
		{" lnet-core 5.2 (0)", `"5.2 (0)": no such number`},
		{" lnet-core 5.2 (99999999999999999999)", `"5.2 (99999999999999999999)": no such number`},
	} {
		ids, err := tagged(sections, c.line)
		got := strings.Join(ids, "|")
		if err != nil {
			got = err.Error()
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.line, d)
		}
	}
}
