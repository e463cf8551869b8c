package main

import (
	"fmt"
	"os/exec"

	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// Ports of queue-proxy, in addition to those of package podspace: its metrics for the autoscaler are fixed.
const (
	queueTLSPort   = 8112
	queueStatsPort = 9090 // protobuf, for the autoscaler
)

// A queueProxy is the configuration of queue-proxy (knative.dev/serving/cmd/queue, v0.48).
type queueProxy struct {
	Program                  string // its path
	Concurrency              int    // requests at once that the container gets; 0 = any number
	UserPort                 int    // of the container, on 127.0.0.1
	TimeoutSeconds           int    // of a request
	Namespace, Revision, Pod string
}

// command returns the command to start in the pod's space. Its environment has nothing of this process's.
func (q *queueProxy) command() *exec.Cmd {
	cmd := exec.Command(q.Program)
	cmd.Env = []string{
		fmt.Sprintf("CONTAINER_CONCURRENCY=%d", q.Concurrency),
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", podspace.QueuePort),
		fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", queueTLSPort),
		fmt.Sprintf("USER_PORT=%d", q.UserPort),
		fmt.Sprintf("REVISION_TIMEOUT_SECONDS=%d", q.TimeoutSeconds),
		"SERVING_LOGGING_CONFIG=",
		"SERVING_LOGGING_LEVEL=error",
		"SERVING_NAMESPACE=" + q.Namespace,
		"SERVING_CONFIGURATION=" + q.Revision,
		"SERVING_REVISION=" + q.Revision,
		"SERVING_POD=" + q.Pod,
		"SERVING_POD_IP=127.0.0.1",
	}
	return cmd
}
