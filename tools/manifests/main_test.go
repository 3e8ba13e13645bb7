package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestShippedManifests checks that the manifests in deploy have no faults.
func TestShippedManifests(t *testing.T) {
	for _, name := range []string{"daemonset", "sidecar", base} {
		if err := check([]byte(manifest(t, name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// base is the name of the kustomization.
const base = "base"

// manifest returns the manifest with the name. That of the kustomization is what kustomize makes of one that has only
// resources: all of them.
func manifest(t *testing.T, name string) string {
	t.Helper()
	read := func(file string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if name != base {
		return read(name + ".yaml")
	}
	var k struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
	}
	if err := yaml.UnmarshalStrict([]byte(read("kustomization.yaml")), &k); err != nil || k.Kind != "Kustomization" || len(k.Resources) == 0 {
		t.Fatalf("%+v, %v", k, err)
	}
	var all []string
	for _, file := range k.Resources {
		all = append(all, read(file))
	}
	return strings.Join(all, "---\n")
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct{ name, file, from, to, want string }{
		{"field that is not there", "daemonset", "hostNetwork: true", "hostNetworking: true", `unknown field "spec.template.spec.hostNetworking"`},
		{"field twice", "daemonset", "hostNetwork: true", "hostNetwork: true\n      hostNetwork: true", `key "hostNetwork" already set`},
		{"wrong type", "daemonset", "containerPort: 988", "containerPort: lnet", "cannot unmarshal string into Go struct field ContainerPort"},
		{"wrong quantity", "sidecar", "memory: 1Gi", "memory: 1 Gi", "quantities must match"},
		{"wrong kind", "daemonset", "kind: DaemonSet", "kind: DemonSet", `no kind "DemonSet"`},
		{"wrong version", "daemonset", "apiVersion: apps/v1", "apiVersion: apps/v7", `"apps/v7"`},
		{"kind that is not judged", "daemonset", "kind: Namespace", "kind: Node", "objects of type *v1.Node are not supported"},
		{"nothing", "nothing", "", "", "contains no document"},
		{"name", "sidecar", "  name: lnet-example\ndata", "  name: Lnet_Example\ndata", `name "Lnet_Example"`},
		{"selector", "daemonset", "    matchLabels:\n      app.kubernetes.io/name: lnetd", "    matchLabels:\n      app: lnetd", "the selector does not match"},
		{"no ConfigMap", "daemonset", "configMap:\n            name: lnetd", "configMap:\n            name: other", "needs the ConfigMap other"},
		{"no volume", "sidecar", "name: run\n              mountPath", "name: runs\n              mountPath", "volume runs does not exist"},
		{"volume of nobody", "sidecar", "name: run\n              mountPath", "name: config\n              mountPath", "no container mounts the volume run"},
		{"image", "daemonset", "lnetd:v1.0.0", "lnetd:latest", "has no version"},
		{"image of a registry with a port", "daemonset", "registry.example.com/lnetd:v1.0.0", "registry.example.com:5000/lnetd", "has no version"},
		{"resources", "daemonset", "memory: 2Gi", "cpu: 2", "a limit for memory"},
		{"port", "daemonset", "hostPort: 988\n", "hostPort: 1988\n", "port 988 of LNet is missing"},
		{"escalation", "daemonset", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation: false"},
		{"file system", "daemonset", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem: true"},
		{"capabilities", "sidecar", "drop: [ALL]", "drop: [SYS_ADMIN]", "drop: [ALL]"},
		{"another capability", "daemonset", "add: [NET_BIND_SERVICE]", "add: [SYS_ADMIN]", "needs only the capability NET_BIND_SERVICE"},
		{"capability of nobody", "daemonset", "runAsUser: 0", "runAsUser: 65532", "only as root"},
		{"privileged", "daemonset", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: true\n            privileged: true", "must not be privileged"},
		{"root", "sidecar", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot: true"},
		{"seccomp", "sidecar", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		{"field of a PodMonitor", base, "podMetricsEndpoints:", "podMetricsEndpoint:", `unknown field "podMetricsEndpoint"`},
		{"PodMonitor without pods", base, "    matchLabels:\n      app.kubernetes.io/name: lnetd\n  podMetrics", "    matchLabels:\n      app.kubernetes.io/name: other\n  podMetrics", "selects no pods"},
		{"PodMonitor of everything", base, "    matchLabels:\n      app.kubernetes.io/name: lnetd\n  podMetrics", "    matchLabels: {}\n  podMetrics", "selects everything"},
		{"PodMonitor in another namespace", base, "kind: PodMonitor\nmetadata:\n  name: lnetd\n  namespace: lnetd", "kind: PodMonitor\nmetadata:\n  name: lnetd\n  namespace: other", "selects no pods"},
		{"port of a PodMonitor", base, "- port: metrics", "- port: lnetd", `no port called "lnetd"`},
		{"job of a PodMonitor", base, "replacement: lnetd", "replacement: lnet", `the job is "lnet"`},
		{"port of a probe", "daemonset", "path: /readyz\n              port: metrics", "path: /readyz\n              port: web", "the readiness probe goes to the port web"},
		{"token", "sidecar", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "automountServiceAccountToken: false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.file != "nothing" {
				text = manifest(t, tt.file)
				if !strings.Contains(text, tt.from) {
					t.Fatalf("there is no %q any more", tt.from)
				}
			}
			err := check([]byte(strings.ReplaceAll(text, tt.from, tt.to)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestProbes checks that a missing probe of a container called lnetd is reported.
func TestProbes(t *testing.T) {
	sidecar := manifest(t, "sidecar")
	for _, probe := range []string{"startup", "readiness", "liveness"} {
		before, after, ok := strings.Cut(sidecar, "          "+probe+"Probe:\n")
		if !ok {
			t.Fatalf("there is no %s probe any more", probe)
		}
		lines := strings.SplitAfter(after, "\n")
		k := 0
		for strings.HasPrefix(lines[k], "            ") {
			k++
		}
		text := before + strings.Join(lines[k:], "")
		if err := check([]byte(text)); err == nil || !strings.Contains(err.Error(), "the "+probe+" probe is missing") {
			t.Errorf("%s: %v", probe, err)
		}
	}
}
