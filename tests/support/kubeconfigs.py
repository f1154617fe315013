"""Kubeconfigs that tests write themselves."""

from typing import Final

# Points at a port where no API server answers.
NOWHERE: Final = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""
