package podspace

// Ports of queue-proxy, and of its metrics for users.
const (
	QueuePort           = 8012
	QueuePrometheusPort = 9091
)
