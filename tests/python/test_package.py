"""What `import sumcast` alone gives, as the documents use it."""

import subprocess
import sys


def test_the_modules_that_documents_name_need_no_import_of_their_own():
    program = "import sumcast; print(sumcast.torch.stats()['groups'], sumcast.pipeline.Optimizer.__name__)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[-1] == "Optimizer"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    program = "import sumcast; sumcast.tensorflow"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "AttributeError: module 'sumcast' has no attribute 'tensorflow'" in ran.stderr


def test_a_report_of_a_step_prints_what_it_holds():
    from sumcast.pipeline.optimizer import Report

    report = Report()
    report.updates, report.fell_back = 1, "the loss rose"
    assert repr(report) == "Report(updates=1, skipped=0, fell_back='the loss rose', retuned=None)"
