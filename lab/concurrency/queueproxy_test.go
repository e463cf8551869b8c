package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueueProxyCommand(t *testing.T) {
	cmd := (&queueProxy{Program: "/queue", Concurrency: 7, UserPort: 8080, TimeoutSeconds: 300, Namespace: "default", Revision: "web-00001", Pod: "web-1"}).command()
	env := map[string]string{}
	for _, line := range cmd.Env {
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok)
		env[key] = value
	}
	assert.Equal(t, map[string]string{
		"CONTAINER_CONCURRENCY": "7", "QUEUE_SERVING_PORT": "8012", "QUEUE_SERVING_TLS_PORT": "8112", "USER_PORT": "8080",
		"REVISION_TIMEOUT_SECONDS": "300", "SERVING_LOGGING_CONFIG": "", "SERVING_LOGGING_LEVEL": "error",
		"SERVING_NAMESPACE": "default", "SERVING_CONFIGURATION": "web-00001", "SERVING_REVISION": "web-00001", "SERVING_POD": "web-1", "SERVING_POD_IP": "127.0.0.1",
	}, env)
}
