package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShippedManifests checks that the manifests in deploy have no faults.
func TestShippedManifests(t *testing.T) {
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
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
		{"token", "sidecar", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "automountServiceAccountToken: false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := ""
			if tt.file != "nothing" {
				b, err := os.ReadFile("../../deploy/kubernetes/" + tt.file + ".yaml")
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
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
	b, err := os.ReadFile("../../deploy/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, probe := range []string{"startup", "readiness", "liveness"} {
		before, after, ok := strings.Cut(string(b), "          "+probe+"Probe:\n")
		if !ok {
			t.Fatalf("there is no %s probe any more", probe)
		}
		lines := strings.SplitAfter(after, "\n")
		k := 0
		for strings.HasPrefix(lines[k], "            ") {
			k++
		}
		text := before + strings.Join(lines[k:], "")
		if probe == "startup" { // it has the YAML anchor
			text = strings.ReplaceAll(text, "exec: *asks", "exec: {command: [lnetdctl, net, show]}")
		}
		if err := check([]byte(text)); err == nil || !strings.Contains(err.Error(), "the "+probe+" probe is missing") {
			t.Errorf("%s: %v", probe, err)
		}
	}
}
