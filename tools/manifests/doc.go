// Command manifests checks Kubernetes manifests. It decodes them strictly as types of Kubernetes'
// API, so that unknown fields, duplicate fields and values of the wrong type are errors. Then it
// checks probes, resources, security contexts and volumes, that PodMonitors of the Prometheus
// Operator find pods, and reports containers with more rights than they need.
package main
