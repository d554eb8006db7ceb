"""The job for KubeRay was validated, asks for the Ray of its image, and runs a command that there is."""

from __future__ import annotations

import hashlib
import re

import click
import yaml

from planner.cli.main import group
from tests.docs.outputs import DOCS

VALIDATED = "45a44cea2140f3c3deaa6bee886cd58c36dbb6c6a8f0b158e738923c5da338cd"
"""Of the file that has no fault against the schemas of `rayjobs.ray.io` of KubeRay 1.4.0 and 1.5.0, unknown fields
being faults. The schemas are what `controller-gen crd` makes of the operator's own types (module
`github.com/ray-project/kuberay/ray-operator`, package `apis/ray/v1`); who changes the file validates it anew."""


def test_the_job_is_the_one_that_was_validated() -> None:
    assert hashlib.sha256((DOCS / "howto" / "ray-job.yaml").read_bytes()).hexdigest() == VALIDATED


def test_job_image_and_package_agree() -> None:
    spec = yaml.safe_load((DOCS / "howto" / "ray-job.yaml").read_text(encoding="utf-8"))["spec"]
    recipe = (DOCS / "howto" / "ray.Dockerfile").read_text(encoding="utf-8")
    (version,) = re.findall(r"^FROM rayproject/ray:([\d.]+)-py311$", recipe, re.MULTILINE)
    assert spec["rayClusterSpec"]["rayVersion"] == version
    name, verb, *words = spec["entrypoint"].split()
    assert name == "planner"
    context = click.Context(group)
    command = group.get_command(context, verb)
    assert command is not None
    asked = command.make_context(verb, words, parent=context).params
    assert (asked["ray"], asked["resume"], str(asked["out"])) == ("auto", True, "s3://capacity/runs/q3")
