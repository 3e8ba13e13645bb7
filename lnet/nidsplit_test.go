package lnet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lnet-wire 3.4
func TestSplitNIDs(t *testing.T) {
	for in, want := range map[string][][]string{
		"":                                 nil,
		"10.0.0.1@tcp":                     {{"10.0.0.1@tcp"}},
		"10.0.0.1@tcp,10.0.0.2@tcp":        {{"10.0.0.1@tcp", "10.0.0.2@tcp"}},
		"10.0.0.1@tcp 10.0.0.2@tcp":        {{"10.0.0.1@tcp", "10.0.0.2@tcp"}},
		"10.0.0.1@tcp:10.0.0.2@tcp":        {{"10.0.0.1@tcp"}, {"10.0.0.2@tcp"}},
		"10.0.0.1,10.1.0.1@tcp1:10.0.0.2":  {{"10.0.0.1", "10.1.0.1@tcp1"}, {"10.0.0.2"}},
		"10.0.0.1:10.0.0.2:/fs":            {{"10.0.0.1"}, {"10.0.0.2"}, {"/fs"}},
		"2001:db8::10@tcp:10.0.0.1@tcp":    {{"2001:db8::10@tcp"}, {"10.0.0.1@tcp"}},
		"2001:db8::10@tcp,fd00::1@o2ib:x":  {{"2001:db8::10@tcp", "fd00::1@o2ib"}, {"x"}},
		"2001:db8::10,2001:db8::20":        {{"2001:db8::10", "2001:db8::20"}},
		"10.0.0.1@tcp:2001:db8::10@tcp:/f": {{"10.0.0.1@tcp"}, {"2001:db8::10@tcp"}, {"/f"}},
		"::ffff:1.2.3.4@tcp:5@gni":         {{"::ffff:1.2.3.4@tcp"}, {"5@gni"}},
		"::1@tcp":                          {{"::1@tcp"}},
		"host1:host2@tcp:host3":            {{"host1"}, {"host2@tcp"}, {"host3"}},
		"beef:cafe":                        {{"beef:cafe"}}, // reads like IPv6
		"beefs:cafe":                       {{"beefs"}, {"cafe"}},
		"12345:1":                          {{"12345"}, {"1"}}, // five digits are no group
		"1234:1":                           {{"1234:1"}},
		"12345@gni:1@gni":                  {{"12345@gni"}, {"1@gni"}},
		" ,10.0.0.1@tcp, ,10.0.0.2@tcp ,":  {{"10.0.0.1@tcp", "10.0.0.2@tcp"}},
		"a@tcp::b@tcp":                     {{"a@tcp"}, {":b@tcp"}}, // the second colon could begin an IPv6 address
	} {
		if diff := cmp.Diff(want, SplitNIDs(in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

func TestSplitNIDsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want [][]string
		var texts []string
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			var group []string
			for _, n := range rapid.SliceOfN(genInterfaceNID(), 1, 4).Draw(t, "nids") {
				group = append(group, n.String())
			}
			want = append(want, group)
			texts = append(texts, strings.Join(group, rapid.SampledFrom([]string{",", " "}).Draw(t, "separator")))
		}
		if diff := cmp.Diff(want, SplitNIDs(strings.Join(texts, ":"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
