// Command manifests checks Kubernetes manifests: it decodes them strictly as the types of
// Kubernetes' API, where a field that is not there, one that stands twice, or a value of
// the wrong type is an error, and then looks for what makes them run badly or with more
// rights than they need: probes, resources, security contexts, mounts without a volume.
package main
