package modparam

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func inline(s string) []Text       { return []Text{{"inline", Mixed, []byte(s)}} }
func routesFile(s string) []Text   { return []Text{{"routes.conf", Routes, []byte(s)}} }
func modprobeFile(s string) []Text { return []Text{{"lustre.conf", Modprobe, []byte(s)}} }

var converted = []struct {
	name  string
	texts []Text
	hop   int
	want  string
}{
	// sanity-lnet 10 (600)
	{name: "two rules", texts: inline("tcp0(eth0,eth1) 10.0.0.*; o2ib0 192.168.[1-2].*"), want: `
ip2nets:
    - net-spec: tcp0
      interfaces:
          0: eth0
          1: eth1
      ip-range:
          0: 10.0.0.*
    - net-spec: o2ib0
      ip-range:
          0: 192.168.[1-2].*
`},
	// sanity-lnet 10 (601)
	{name: "a route", texts: inline("routes='tcp0 1 10.0.0.1@o2ib0'"), want: `
route:
    - net: tcp0
      gateway: 10.0.0.1@o2ib0
      hop: 1
`},
	// sanity-lnet 10 (603)
	{name: "the default hop", texts: inline("routes='tcp0 10.0.0.1@o2ib0'"), hop: 1, want: `
route:
    - net: tcp0
      gateway: 10.0.0.1@o2ib0
      hop: 1
`},
	{name: "the most hops", texts: inline("routes='tcp0 255 10.0.0.1@o2ib0'"), hop: 1, want: `
route:
    - net: tcp0
      gateway: 10.0.0.1@o2ib0
      hop: 255
`},
	{name: "the default hop overrides none", texts: inline("tcp0 10.0.0.1@o2ib0; tcp1 3 10.0.0.1@o2ib0"), hop: 9, want: `
route:
    - net: tcp0
      gateway: 10.0.0.1@o2ib0
      hop: 9
    - net: tcp1
      gateway: 10.0.0.1@o2ib0
      hop: 3
`},
	// sanity-lnet 10 (605)
	{name: "a pattern that needs quotes", texts: inline("tcp *.*.*.*"), want: `
ip2nets:
    - net-spec: tcp
      ip-range:
          0: "*.*.*.*"
`},
	// sanity-lnet 10 (607)
	{name: "a shell's quotes around a modprobe line", texts: inline(`options lnet 'ip2nets="tcp0 10.0.0.*" routes="tcp0 1 10.0.0.2@o2ib0"'`), want: `
ip2nets:
    - net-spec: tcp0
      ip-range:
          0: 10.0.0.*
route:
    - net: tcp0
      gateway: 10.0.0.2@o2ib0
      hop: 1
`},
	// sanity-lnet 10 (614)
	{name: "two ranges", texts: inline("tcp0(eth0,eth1) 10.0.0.* 10.0.1.*"), want: `
ip2nets:
    - net-spec: tcp0
      interfaces:
          0: eth0
          1: eth1
      ip-range:
          0: 10.0.0.*
          1: 10.0.1.*
`},
	// sanity-lnet 10 (615)
	{name: "a modprobe file", texts: modprobeFile(`# lnet of this site
options lnet ip2nets="tcp0(eth0) 10.1.0.*"
   # its routers
options lnet routes="tcp0 1 10.1.0.1@o2ib0:9"
options lnet \
	ip2nets="o2ib0 192.168.1.*"
install lustre /bin/true
options ksocklnd credits=512
`), want: `
ip2nets:
    - net-spec: tcp0
      interfaces:
          0: eth0
      ip-range:
          0: 10.1.0.*
    - net-spec: o2ib0
      ip-range:
          0: 192.168.1.*
route:
    - net: tcp0
      gateway: 10.1.0.1@o2ib0
      hop: 1
      priority: 9
lnetd:
    socklnd:
        credits: 512
`},
	// sanity-lnet 10 (618)
	{name: "a routes file with braces", texts: routesFile("tcp7: { gateway: 10.3.3.[6-12]@tcp, priority: 20, hop: 8 }\n"), want: `
route:
    - net: tcp7
      gateway: 10.3.3.[6-12]@tcp
      hop: 8
      priority: 20
`},
	// sanity-lnet 10 (620)
	{name: "both syntaxes of routes", texts: routesFile(`# braces and blanks
tcp1: { gateway: 10.1.1.2@tcp0, priority: 3 }
tcp0 1 10.2.2.3@tcp1

tcp6: {gateway: 10.3.3.4@tcp0, hop: 2, priority: 5}
tcp2 2 10.4.4.5@tcp0:7
`), want: `
route:
    - net: tcp1
      gateway: 10.1.1.2@tcp0
      priority: 3
    - net: tcp0
      gateway: 10.2.2.3@tcp1
      hop: 1
    - net: tcp6
      gateway: 10.3.3.4@tcp0
      hop: 2
      priority: 5
    - net: tcp2
      gateway: 10.4.4.5@tcp0
      hop: 2
      priority: 7
`},
	// sanity-lnet 10 (623)
	{name: "a net", texts: inline("options lnet networks=tcp"), want: `
net:
    - net type: tcp
`},
	// sanity-lnet 10 (624)
	{name: "a net with an interface", texts: inline("networks=tcp0(eth0)"), want: `
net:
    - net type: tcp0
      local NI(s):
        - interfaces:
              0: eth0
`},
	// sanity-lnet 10 (626)
	{name: "all three", texts: modprobeFile(`options lnet networks="tcp0(eth0), o2ib1(ib0[0],ib1)[1-2],lo"
options lnet ip2nets="tcp1 10.1.0.*"
options lnet routes="tcp0 1 10.1.0.1@o2ib0"
`), want: `
net:
    - net type: tcp0
      local NI(s):
        - interfaces:
              0: eth0
    - net type: o2ib1
      local NI(s):
        - interfaces:
              0: ib0[0]
              1: ib1
      CPT: "[1-2]"
ip2nets:
    - net-spec: tcp1
      ip-range:
          0: 10.1.0.*
route:
    - net: tcp0
      gateway: 10.1.0.1@o2ib0
      hop: 1
`},
	{name: "sections have the order of the texts", texts: []Text{
		{"a", IP2Nets, []byte("tcp1 10.1.*.* # here\n# none here\ntcp2,tcp3(eth3) [10,12].*.*.*")},
		{"b", Routes, []byte("tcp[4-6] [10-12]@gni")},
		{"c", Networks, []byte("tcp8,")},
		{"d", Mixed, []byte("tcp9(eth9)\n")},
	}, want: `
net:
    - net type: tcp8
    - net type: tcp9
      local NI(s):
        - interfaces:
              0: eth9
ip2nets:
    - net-spec: tcp1
      ip-range:
          0: 10.1.*.*
    - net-spec: tcp2
      ip-range:
          0: "[10,12].*.*.*"
    - net-spec: tcp3
      interfaces:
          0: eth3
      ip-range:
          0: "[10,12].*.*.*"
route:
    - net: tcp[4-6]
      gateway: "[10-12]@gni"
`},
}

// Conversions and their results.
//
// lnetctl 14 (4)-(5)
func TestConvert(t *testing.T) {
	for _, c := range converted {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := Convert(c.texts, c.hop)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConvertTellsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []Text
		want  []string // contained in the lines of the error
	}{
		// sanity-lnet 10 (611)
		{"hop 0", inline("routes='tcp0 0 10.0.0.1@o2ib0'"), []string{"inline:1: invalid route 'tcp0 0 10.0.0.1@o2ib0': hopcount 0 is not within 1 to 255"}},
		// sanity-lnet 10 (612)
		{"three octets", inline("tcp0 10.0.0"), []string{"inline:1: invalid ip2nets rule 'tcp0 10.0.0': IP pattern '10.0.0': "}},
		// sanity-lnet 10 (621)
		{"hop 0 in braces", routesFile("\ntcp7: { gateway: 10.3.3.6@tcp, hop: 0 }"), []string{"routes.conf:2: invalid route 'tcp7: { gateway: 10.3.3.6@tcp, hop: 0 }': hopcount 0 is not within 1 to"}},
		// sanity-lnet 10 (627)
		{"an open parenthesis", inline("networks=tcp0(eth0"), []string{"inline:1: Invalid network specification 'tcp0(eth0': "}},
		// sanity-lnet 10 (629)
		{"two gateways", inline(`routes="tcp0 1 10.0.0.1@o2ib0 10.0.0.2@o2ib0"`), []string{"more than one gateway"}},
		{"every mistake", modprobeFile("options lnet \\\n networks=\"tcpx\"\noption lnet routes=x\noptions lnet routes=\"tcp1; tcp2 1@foo\" ip2nets='tcp'\n" +
			"options lnet networks=tcp (eth0)\noptions networks=tcp\noptions lnet networks=\"tcp\n"), []string{
			"lustre.conf:1: Invalid network specification 'tcpx': ", "lustre.conf:3: 'option' is not a keyword of modprobe files; parameters are set with 'options",
			"lustre.conf:5: '(eth0)' is not of the form NAME=VALUE", "lustre.conf:6: 'options' without a module", `lustre.conf:7: the closing quote in "networks=\"tcp" is missing`,
			"lustre.conf:4: invalid route 'tcp1': the gateway", "lustre.conf:4: invalid route 'tcp2 1@foo': ", "lustre.conf:4: invalid ip2nets rule 'tcp': the IP pattern",
			"lustre.conf:5: warning: options lnet: networks is also in line 1: both are converted; kernels use the last one",
		}},
		{"braces", routesFile("tcp1: { gateway: 10.0.0.1@tcp\ntcp1: { hop: 1 }\n{ gateway: 10.0.0.1@tcp }\ntcp1: { gatway: 10.0.0.1@tcp }\n" +
			"tcp1: { hop: 1, hop: 2 }\ntcp1: { gateway: 10.0.0.1@tcp, priority: -1 }\ntcp1: { gateway: 10.0.0.300@tcp }\nlo 10.0.0.1@tcp\ntcp1 10.0.0.1@tcp:x\ntcp1 256 10.0.0.1@tcp"), []string{
			":1: invalid route 'tcp1: { gateway: 10.0.0.1@tcp': the form is NET: {", ":2: invalid route 'tcp1: { hop: 1 }': the gateway is missing", ":3: invalid route '{ gateway: 10.0.0.1@tcp }': the net before",
			"'gatway' is not gateway, hop or priority", "hop occurs twice", "priority '-1' is not a 32-bit number", ":7: invalid route", ":8: invalid route", ":9: invalid route", "hopcount 256 is not within 1 to",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := Convert(c.texts, 0)
			if err == nil || got != nil {
				t.Fatalf("%q, %v", got, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in:\n%v", want, err)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(c.want) {
				t.Errorf("%d problems of %d:\n%v", lines, len(c.want), err)
			}
			if p := Problems(nil); !errors.As(err, &p) || p[0].Line == 0 {
				t.Errorf("no Problems: %v", err)
			}
		})
	}
}

// sanity-lnet 10 (609)
func TestConvertNothing(t *testing.T) {
	for _, text := range []string{"", "\n# a comment\n", "options lnet accept=\noptions other networks=tcp", "networks=lo"} {
		if got, _, err := Convert(inline(text), 0); !errors.Is(err, ErrNoData) || got != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
