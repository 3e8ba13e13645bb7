package main

import (
	"fmt"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// podMonitor is the part of the Prometheus Operator's kind PodMonitor that the manifests use. Other fields of it are
// errors.
type podMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector            meta.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port        string `json:"port"`
			Path        string `json:"path"`
			Interval    string `json:"interval"`
			Relabelings []struct {
				SourceLabels []string `json:"sourceLabels"`
				TargetLabel  string   `json:"targetLabel"`
				Replacement  string   `json:"replacement"`
			} `json:"relabelings"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// podMonitorVersion and podMonitorKind identify a podMonitor.
const (
	podMonitorVersion = "monitoring.coreos.com/v1"
	podMonitorKind    = "PodMonitor"
)

// metricsJob is the job that rules, alerts and dashboards select.
const metricsJob = "lnetd"

// DeepCopyObject implements runtime.Object.
func (m *podMonitor) DeepCopyObject() runtime.Object {
	c := *m
	c.ObjectMeta = *m.ObjectMeta.DeepCopy()
	return &c
}

// decodePodMonitor decodes a document if it is a PodMonitor. Otherwise it returns nil.
func decodePodMonitor(document []byte) (*podMonitor, error) {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil || kind.Kind != podMonitorKind || kind.APIVersion != podMonitorVersion {
		return nil, nil //nolint:nilerr // the general decoder reports what is wrong
	}
	m := &podMonitor{}
	return m, yaml.UnmarshalStrict(document, m)
}

// monitor checks that a PodMonitor selects pods of the same file that have the ports that it names, and that it sets
// the job that rules select.
func (j *checker) monitor(m *podMonitor, objects []runtime.Object) {
	s, err := meta.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil || s.Empty() {
		j.report("%s: the selector of the PodMonitor selects everything or is invalid (%v)", m.Name, err)
		return
	}
	pods := selected(s, m.Namespace, objects)
	if len(pods) == 0 {
		j.report("%s: the PodMonitor selects no pods of the file", m.Name)
	}
	if len(m.Spec.PodMetricsEndpoints) == 0 {
		j.report("%s: the PodMonitor has no podMetricsEndpoints", m.Name)
	}
	for _, e := range m.Spec.PodMetricsEndpoints {
		for _, pod := range pods {
			if !hasPort(pod, e.Port) {
				j.report("%s: the pods have no port called %q", m.Name, e.Port)
			}
		}
		job := ""
		for _, r := range e.Relabelings {
			if r.TargetLabel == "job" {
				job = r.Replacement
			}
		}
		if job != metricsJob {
			j.report("%s: the job is %q, but rules and dashboards select %q", m.Name, job, metricsJob)
		}
	}
}

// selected returns the pods of workloads in a namespace that a selector matches.
func selected(s labels.Selector, namespace string, objects []runtime.Object) (pods []*core.PodSpec) {
	for _, o := range objects {
		var t *core.PodTemplateSpec
		switch o := o.(type) {
		case *apps.DaemonSet:
			t = &o.Spec.Template
		case *apps.Deployment:
			t = &o.Spec.Template
		}
		if t != nil && o.(meta.Object).GetNamespace() == namespace && s.Matches(labels.Set(t.Labels)) {
			pods = append(pods, &t.Spec)
		}
	}
	return pods
}

func hasPort(pod *core.PodSpec, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c core.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == name })
	})
}

// probe checks that a probe over HTTP goes to a port that the container names.
func (j *checker) probe(name, what string, c *core.Container, p *core.Probe) {
	switch {
	case p == nil || p.Exec == nil && p.HTTPGet == nil:
		j.report("%s: the %s probe is missing", name, what)
	case p.HTTPGet == nil:
	case !slices.ContainsFunc(c.Ports, func(o core.ContainerPort) bool { return o.Name == p.HTTPGet.Port.StrVal }):
		j.report("%s: the %s probe goes to the port %s, which the container does not name", name, what, fmt.Sprint(p.HTTPGet.Port.String()))
	}
}
