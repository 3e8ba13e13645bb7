package packages

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Given the image's layer unpacked, and a network namespace, when its entry point runs as its user,
// in the unpacked tree only, then lnetd becomes ready, lnetdctl in the container finds it, and
// SIGTERM ends it in good order.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	root, s := rootOf(t)
	p := newPod(t, "image", root)
	c := p.container(s.Config.User, s.Config.Env)
	lnetd := c.start(t, `"msg":"ready"`, append(s.Config.Entrypoint, s.Config.Cmd...)...)
	nid := tcpNID(t, c.run(t, "lnetdctl", "net", "show"))
	if out := c.run(t, "lnetdctl", "ping", nid); !strings.Contains(out, "primary nid: "+nid) {
		t.Errorf("lnetdctl ping %s:\n%s", nid, out)
	}
	lnetd.stop(t)
}

// Given the sidecar's manifest, when its containers run as it says, from the image, as a user
// without a capability, with a read-only root and a directory that both share, then lnetd has
// port 988, its probes succeed, and the program serves another one over lnetd.
func TestSidecar(t *testing.T) {
	t.Parallel()
	root, s := rootOf(t)
	config, spec := readManifest(t, "sidecar")
	p := newPod(t, "sidecar", root)
	p.interfaces(t)
	p.mount(t, "/etc/lnetd", 0o755)
	p.write(t, "/etc/lnetd/lnetd.yaml", config)
	// The same owner and mode as an emptyDir with an fsGroup.
	p.mount(t, "/run/lnetd", 0o777)
	if err := os.Chown(p.mounts["/run/lnetd"], 0, spec.SecurityContext.FSGroup); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.mounts["/run/lnetd"], 0o777|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for _, c := range spec.SecurityContext.Sysctls {
		namespace.IP(t, "netns", "exec", p.namespace, "sysctl", "-q", c.Name+"="+c.Value)
	}
	user := fmt.Sprintf("%d:%d", spec.SecurityContext.RunAsUser, spec.SecurityContext.RunAsGroup)
	c := p.container(user, s.Config.Env)
	sidecar, program := spec.InitContainers[0], spec.Containers[0]
	lnetd := c.start(t, `"msg":"ready"`, append(s.Config.Entrypoint, sidecar.Args...)...)
	c.probes(t, &sidecar)
	if out := p.listeners(t); !strings.Contains(out, ":988 ") || !strings.Contains(out, ":9989 ") {
		t.Errorf("nobody listens on 988 and 9989:\n%s", out)
	}
	server := c.start(t, "ready at ", program.Command...)
	c.run(t, "lnetperf", "ping", "--client", "--loops", "3", "--server-nid", "10.77.0.1@tcp", "--through", "/run/lnetd/lnetd.sock", "--quiet")
	server.stop(t)
	lnetd.stop(t)
}

// Given the daemon set's manifest, when its container runs as specified, as root with the one
// capability, then lnetd has the ports and its probes succeed.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	needMachine(t)
	testenv.NeedCommand(t, "setpriv", "util-linux")
	root, s := rootOf(t)
	config, spec := readManifest(t, "daemonset")
	p := newPod(t, "daemonset", root)
	p.interfaces(t)
	p.mount(t, "/etc/lnetd", 0o755)
	p.write(t, "/etc/lnetd/lnetd.yaml", config)
	p.mount(t, "/run/lnetd", 0o755)
	d := spec.Containers[0]
	c := p.container("root", s.Config.Env)
	args := slices.Concat(s.Config.Entrypoint, d.Args)
	for k := range args {
		args[k] = strings.ReplaceAll(args[k], "$(NODE_IP)", "10.77.0.1")
	}
	lnetd := c.start(t, `"msg":"ready"`, args...)
	c.probes(t, &d)
	if out := p.listeners(t); !strings.Contains(out, ":988 ") || !strings.Contains(out, "10.77.0.1:9989 ") {
		t.Errorf("nobody listens on 988 and 9989:\n%s", out)
	}
	lnetd.stop(t)
}

// probes checks that the probes of a container succeed: the command of the startup probe, and the other two over HTTP at
// the address of the pod.
func (c *container) probes(t *testing.T, s *containerSpec) {
	t.Helper()
	if out := c.run(t, s.StartupProbe.Exec.Command...); tcpNID(t, out) != "10.77.0.1@tcp" {
		t.Errorf("%v:\n%s", s.StartupProbe.Exec.Command, out)
	}
	for path, p := range map[string]probe{"/readyz": s.ReadinessProbe, "/healthz": s.LivenessProbe} {
		if p.HTTPGet.Path != path || p.HTTPGet.Port != "metrics" {
			t.Errorf("the probe is %+v, want %s", p, path)
		}
		if out := c.pod.get(t, "10.77.0.1", 9989, path); !strings.HasPrefix(out, "HTTP/1.0 200 OK\r\n") || !strings.HasSuffix(out, "\r\n\r\nok\n") {
			t.Errorf("%s:\n%s", path, out)
		}
	}
}

// get returns the response to a GET request that is sent in the pod.
func (p *pod) get(t *testing.T, host string, port int, path string) string {
	t.Helper()
	const script = `exec 3<>"/dev/tcp/$0/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && cat <&3`
	out, err := exec.Command("ip", "netns", "exec", p.namespace, "bash", "-c", script, host, strconv.Itoa(port), path).CombinedOutput()
	if err != nil {
		t.Fatalf("GET %s: %v\n%s", path, err, out)
	}
	return string(out)
}

// tcpNID matches the NID on tcp in the output of net show.
func tcpNID(t *testing.T, shown string) string {
	t.Helper()
	for line := range strings.Lines(shown) {
		if f := strings.Fields(line); len(f) > 1 && f[len(f)-2] == "nid:" && strings.HasSuffix(f[len(f)-1], "@tcp") {
			return f[len(f)-1]
		}
	}
	t.Fatalf("there is no NID on tcp in\n%s", shown)
	return ""
}

// podSpec, container and probe are the parts of manifests that these tests read. tools/manifests
// has checked the whole manifests.
type podSpec struct {
	SecurityContext struct {
		RunAsUser  int `yaml:"runAsUser"`
		RunAsGroup int `yaml:"runAsGroup"`
		FSGroup    int `yaml:"fsGroup"`
		Sysctls    []struct{ Name, Value string }
	} `yaml:"securityContext"`
	InitContainers []containerSpec `yaml:"initContainers"`
	Containers     []containerSpec
}

type containerSpec struct {
	Args, Command  []string
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
}

type probe struct {
	Exec    struct{ Command []string }
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// readManifest reads the configuration and the pods of a manifest.
func readManifest(t *testing.T, name string) (config string, spec podSpec) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(sources, "deploy", "kubernetes", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var document struct {
			Kind string
			Data map[string]string
			Spec struct{ Template struct{ Spec podSpec } }
		}
		err := d.Decode(&document)
		if err == io.EOF {
			return config, spec
		}
		if err != nil {
			t.Fatal(err)
		}
		switch document.Kind {
		case "ConfigMap":
			config = document.Data["lnetd.yaml"]
		case "DaemonSet", "Deployment":
			spec = document.Spec.Template.Spec
		}
	}
}

// pod is a network namespace in which containers of one image run.
type pod struct {
	root, namespace string
	mounts          map[string]string // path in the pod to path on the host
}

func newPod(t *testing.T, name, root string) *pod {
	t.Helper()
	testenv.NeedCommand(t, "ip", "iproute2")
	p := &pod{root: root, namespace: "lnetd-" + name + "-" + strconv.Itoa(os.Getpid()), mounts: map[string]string{}}
	namespace.Sweep("lnetd-" + name + "-")
	namespace.New(t, p.namespace)
	return p
}

// interfaces creates the pod's interface that manifests name.
func (p *pod) interfaces(t *testing.T) {
	t.Helper()
	namespace.IP(t, "-n", p.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	namespace.IP(t, "-n", p.namespace, "link", "set", "other", "up")
	namespace.IP(t, "-n", p.namespace, "addr", "add", "10.77.0.1/24", "dev", "eth0")
	namespace.IP(t, "-n", p.namespace, "link", "set", "eth0", "up")
}

// mount mounts a directory of the test in the pod.
func (p *pod) mount(t *testing.T, at string, mode os.FileMode) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	p.mounts[at] = dir
}

func (p *pod) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(p.mounts[filepath.Dir(name)], filepath.Base(name))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // the container's user reads it
		t.Fatal(err)
	}
}

// listeners returns the TCP ports on which a process in the pod listens.
func (p *pod) listeners(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", p.namespace, "ss", "-tlnH").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// container runs programs of the image as a user.
type container struct {
	pod  *pod
	user string // 65532:65532, or root, which has the one capability
	env  []string
}

func (p *pod) container(user string, env []string) *container { return &container{p, user, env} }

// enter makes the image's tree (for root its directories) the root of a program, and runs it. $0 is
// the root and $1 the user. Pairs of sources and targets of mounts follow, and then "--". With
// mounts the root is read-only.
const enter = `set -e
root=$0 user=$1
shift
mount --bind "$root" "$root"
rights=ro
[ "$1" != -- ] || rights=rw
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
mount -o "remount,bind,$rights" "$root"
[ "$user" = root ] || exec chroot --userspec="$user" "$root" "$@"
# Root without the capability to change its root: the image's directories lie over ours.
mount -t tmpfs tmpfs /run
mkdir /run/lnetd
mount --bind "$root/run/lnetd" /run/lnetd
mount --bind "$root/usr/bin" /mnt
mount --bind "$root/etc" /etc
program=${1##*/}
shift
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all,+net_bind_service "/mnt/$program" "$@"
`

func (c *container) command(args ...string) *exec.Cmd {
	words := []string{"netns", "exec", c.pod.namespace, "unshare", "--mount", "--propagation", "private", "sh", "-c", enter, c.pod.root, c.user}
	for _, at := range slices.Sorted(maps.Keys(c.pod.mounts)) {
		words = append(words, c.pod.mounts[at], at)
	}
	cmd := exec.Command("ip", append(append(words, "--"), args...)...)
	cmd.Env = append(slices.Clone(c.env), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	return cmd
}

func (c *container) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// process is a program that runs in a container.
type process struct {
	cmd *exec.Cmd
	log *bufio.Reader
}

// start starts a program and waits until it reports that it is ready.
func (c *container) start(t *testing.T, ready string, args ...string) *process {
	t.Helper()
	cmd := c.command(args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := &process{cmd: cmd, log: bufio.NewReader(log)}
	var said strings.Builder
	for {
		line, err := p.log.ReadString('\n')
		said.WriteString(line)
		if strings.Contains(line, ready) {
			return p
		}
		if err != nil {
			t.Fatalf("%v: not ready: %v\n%s", args, cmd.Wait(), said.String())
		}
	}
}

// stop ends a program, which must exit in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(p.log)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %v\n%s", p.cmd.Args, err, rest)
	}
}
