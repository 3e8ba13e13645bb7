package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checker checks the objects of one file and collects the errors.
type checker struct {
	configs map[string]bool // NAMESPACE/NAME of the file's ConfigMaps
	errs    []error
}

func (j *checker) report(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

// checkObjects returns all errors in the objects of one file, or nil.
func checkObjects(objects []runtime.Object) error {
	j := &checker{configs: map[string]bool{}}
	for _, o := range objects {
		if c, ok := o.(*core.ConfigMap); ok {
			j.configs[c.Namespace+"/"+c.Name] = true
		}
	}
	for _, o := range objects {
		named, ok := o.(meta.Object)
		if !ok {
			j.report("a %T has no name", o)
			continue
		}
		for _, wrong := range validation.IsDNS1123Subdomain(named.GetName()) {
			j.report("name %q: %s", named.GetName(), wrong)
		}
		switch o := o.(type) {
		case *core.ConfigMap, *core.Namespace:
		case *podMonitor:
			j.monitor(o, objects)
		case *apps.DaemonSet:
			j.template(o.Name, o.Namespace, o.Spec.Selector, &o.Spec.Template)
		case *apps.Deployment:
			j.template(o.Name, o.Namespace, o.Spec.Selector, &o.Spec.Template)
		default:
			j.report("%s: objects of type %T are not supported by this check", named.GetName(), o)
		}
	}
	return errors.Join(j.errs...)
}

// template checks the pods of a workload.
func (j *checker) template(name, namespace string, selector *meta.LabelSelector, t *core.PodTemplateSpec) {
	s, err := meta.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(t.Labels)) {
		j.report("%s: the selector does not match the labels of the template (%v)", name, err)
	}
	spec := &t.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		j.report("%s: the pod does not need the Kubernetes API: set automountServiceAccountToken: false", name)
	}
	if c := spec.SecurityContext; c == nil || c.SeccompProfile == nil || c.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		j.report("%s: system calls are not restricted: set seccompProfile to RuntimeDefault", name)
	}
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = false
		if v.ConfigMap != nil && !j.configs[namespace+"/"+v.ConfigMap.Name] {
			j.report("%s: volume %s needs the ConfigMap %s, which the file does not have", name, v.Name, v.ConfigMap.Name)
		}
	}
	if len(spec.Containers) == 0 {
		j.report("%s: the pod has no container", name)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		j.container(name+": "+c.Name, spec, &c, volumes)
	}
	for v, used := range volumes {
		if !used {
			j.report("%s: no container mounts the volume %s", name, v)
		}
	}
}

// container checks a container, and records which volumes it mounts.
func (j *checker) container(name string, pod *core.PodSpec, c *core.Container, volumes map[string]bool) {
	if image := c.Image[strings.LastIndex(c.Image, "/")+1:]; !strings.Contains(image, ":") || strings.HasSuffix(image, ":latest") {
		j.report("%s: image %q has no version in its name", name, c.Image)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		j.report("%s: set resources: requests for cpu and memory, and a limit for memory", name)
	}
	j.rights(name, pod, c.SecurityContext)
	for _, m := range c.VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			j.report("%s: the mounted volume %s does not exist", name, m.Name)
			continue
		}
		volumes[m.Name] = true
	}
	if c.Name != "lnetd" {
		return
	}
	for what, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		j.probe(name, what, c, p)
	}
	isPort := func(p core.ContainerPort) bool {
		return p.ContainerPort == 988 && (!pod.HostNetwork || p.HostPort == 988)
	}
	if !slices.ContainsFunc(c.Ports, isPort) {
		j.report("%s: port 988 of LNet is missing in the ports", name)
	}
}

// rights checks the rights of a container.
func (j *checker) rights(name string, pod *core.PodSpec, s *core.SecurityContext) {
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		j.report("%s: set allowPrivilegeEscalation: false", name)
	}
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		j.report("%s: set readOnlyRootFilesystem: true", name)
	}
	if s == nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		j.report("%s: set capabilities: drop: [ALL]", name)
	}
	if s != nil && s.Privileged != nil && *s.Privileged {
		j.report("%s: the container must not be privileged", name)
	}
	root := pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot
	switch {
	case s == nil || s.Capabilities == nil || len(s.Capabilities.Add) == 0:
		if root {
			j.report("%s: the container needs no capability, so it must not run as root: set runAsNonRoot: true", name)
		}
	case !slices.Equal(s.Capabilities.Add, []core.Capability{"NET_BIND_SERVICE"}):
		j.report("%s: lnetd needs only the capability NET_BIND_SERVICE, not %v", name, s.Capabilities.Add)
	case s.RunAsUser == nil || *s.RunAsUser != 0:
		j.report("%s: a container gets capabilities only as root: set runAsUser: 0", name)
	}
}
