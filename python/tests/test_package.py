"""The package as a whole: names, stubs, what it imports."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import sheaf_admm as sa
from sheaf_admm import _native

PACKAGE = Path(sa.__file__).parent


def test_the_stub_has_every_name_and_no_other():
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    stub = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = {m.name for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("__")}
            stub[node.name] = methods
        elif isinstance(node, ast.FunctionDef):
            stub[node.name] = None
    native = {name for name in dir(_native) if not name.startswith("__")}
    assert native == set(stub)
    for name, methods in stub.items():
        if methods is not None:
            have = {m for m in vars(getattr(_native, name)) if not m.startswith("_")}
            assert have == methods, name


def test_everything_public_is_documented():
    assert (PACKAGE / "py.typed").exists()
    for name in sa.__all__:
        value = getattr(sa, name)
        if name.startswith("__"):
            continue
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member in vars(value):
                if not member.startswith("_"):
                    assert inspect.getdoc(getattr(value, member)), f"{name}.{member}"


def test_torch_jax_pandas_scipy_and_networkx_are_imported_only_when_asked_for():
    code = "import sys, sheaf_admm; print(sorted({'torch','jax','pandas','scipy','networkx'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_version_is_that_of_the_workspace():
    cargo = PACKAGE.parent.parent / "Cargo.toml"
    if cargo.exists():
        assert f'version = "{sa.__version__}"' in cargo.read_text()
